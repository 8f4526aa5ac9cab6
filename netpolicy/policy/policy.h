// What one sandbox may reach: an ordered list of rules and a default. The first rule that fits
// decides.
//
// Names and addresses are two questions. A name is judged when it is looked up and when a
// connection names it (TLS, HTTP); an address is judged when a packet goes there and no name has
// led to it. Rules for names say nothing about addresses, and the other way round.
//
// Thread rule: values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "netpolicy/address/ip.h"
#include "runtime/base/result.h"

namespace atl::netpolicy {

enum class Action : uint8_t { kDeny, kAllow };
enum class Transport : uint8_t { kAny, kTcp, kUdp };

inline constexpr size_t kMaxPolicyRules = 4096;
inline constexpr size_t kMaxRulePorts = 16;

struct PolicyTarget {
  enum class Kind : uint8_t { kName, kWildcard, kPrefix };
  Kind kind = Kind::kName;
  // Lower case, without a dot at the end. Of "*.example.com": "example.com", and only names below
  // it fit, not itself.
  std::string name;
  IpPrefix prefix;
};

struct PolicyRule {
  Action action = Action::kDeny;
  std::string target;  // as it was written
  PolicyTarget parsed;
  // An extension: only these ports (none: all), and only this transport. On a name only with
  // kAllow: a name that is denied is denied whole.
  std::vector<uint16_t> ports;
  Transport transport = Transport::kAny;
};

struct Policy {
  Action default_action = Action::kDeny;
  std::vector<PolicyRule> rules;
};

// Thousands of rules, passed from hand to hand: shared, and never changed.
using SharedPolicy = std::shared_ptr<const Policy>;
inline SharedPolicy Share(Policy policy) {
  return std::make_shared<const Policy>(std::move(policy));
}

// The beginning of a text that a client wrote, for an error: never a part of a character of UTF-8.
std::string Shortened(std::string_view text, size_t most);

// A host name (letters, digits, '-', '_'; labels of 1 to 63, 253 in all), "*." before one, an
// address or a prefix. kInvalidArgument says what is wrong with it.
Result<PolicyTarget> ParsePolicyTarget(std::string_view text);

// The rules of a PATCH: `added` come first, and of several with the same target (in any case) only
// the first stays.
Policy WithRules(const Policy& policy, std::vector<PolicyRule> added);
// Without those whose target is one of `targets`, in any case; `removed` counts them.
Policy WithoutTargets(const Policy& policy, const std::vector<std::string>& targets,
                      size_t* removed);

}  // namespace atl::netpolicy
