// The egress policy of one sandbox: an ordered list of rules and a default. The first rule that
// matches decides.
//
// Names and addresses are judged separately. A name is judged when it is looked up and when a
// connection carries it (TLS, HTTP). An address is judged when a packet goes there and no name has
// led to it. Rules for names do not apply to addresses, and rules for addresses do not apply to
// names.
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
  // Lower case, without a trailing dot. The wildcard "*.example.com" has the name "example.com" and
  // matches only names below it, not the name itself.
  std::string name;
  IpPrefix prefix;
};

struct PolicyRule {
  Action action = Action::kDeny;
  std::string target;  // the client's text
  PolicyTarget parsed;
  // An extension of OpenSandbox: restricts the rule to these ports (empty: all) and this transport.
  // A rule for a name may have them only with kAllow, because a denied name is denied at every
  // port.
  std::vector<uint16_t> ports;
  Transport transport = Transport::kAny;
};

struct Policy {
  Action default_action = Action::kDeny;
  std::vector<PolicyRule> rules;
};

// A policy has up to thousands of rules, so it is shared and immutable.
using SharedPolicy = std::shared_ptr<const Policy>;
inline SharedPolicy Share(Policy policy) {
  return std::make_shared<const Policy>(std::move(policy));
}

// Shortens a client's text for an error message. Never cuts a UTF-8 character.
std::string Shortened(std::string_view text, size_t most);

// Parses a host name (letters, digits, '-', '_'; labels of 1 to 63, 253 characters in all), a
// wildcard ("*." before a host name), an address or a prefix. kInvalidArgument says what is wrong
// with the text.
Result<PolicyTarget> ParsePolicyTarget(std::string_view text);

// Applies a PATCH. `added` rules come first. If several have the same target, ignoring case, only
// the first one stays.
Policy WithRules(const Policy& policy, std::vector<PolicyRule> added);
// Returns the policy without the rules whose target is in `targets`, ignoring case. `removed` gets
// their number.
Policy WithoutTargets(const Policy& policy, const std::vector<std::string>& targets,
                      size_t* removed);

}  // namespace atl::netpolicy
