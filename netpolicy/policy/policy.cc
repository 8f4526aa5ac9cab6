#include "netpolicy/policy/policy.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "netpolicy/splice/host_name.h"

namespace atl::netpolicy {
namespace {

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

// Returns what is wrong with `name` (lower case) as a host name, "" if nothing is.
std::string WrongWithName(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name.size() > kMaxHostName) return "is longer than 253 characters";
  while (true) {
    const size_t dot = name.find('.');
    const std::string_view label = name.substr(0, dot);
    if (label.empty()) return "has an empty label";
    if (label.size() > kMaxHostLabel) return "has a label of more than 63 characters";
    if (!std::all_of(label.begin(), label.end(), IsNameCharacter)) {
      return "is neither an address, a prefix nor a host name (letters, digits, '-', '_', dots; "
             "\"*.\" only in front)";
    }
    if (dot == std::string_view::npos) break;
    name.remove_prefix(dot + 1);
  }
  // Many resolvers read "1.2.3" and "0x7f.1" as addresses (inet_aton(3)), so a name must not end in
  // a number.
  const size_t last = name.rfind('.');
  const std::string_view label = last == std::string_view::npos ? name : name.substr(last + 1);
  if (label[0] >= '0' && label[0] <= '9' && std::all_of(label.begin(), label.end(), [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == 'x';
      })) {
    return "ends in a number, so it is no name, and it is no whole address either";
  }
  return {};
}

}  // namespace

std::string Shortened(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  return std::string(text.substr(0, most)) + "…";
}

Result<PolicyTarget> ParsePolicyTarget(std::string_view text) {
  const auto wrong = [&](const std::string& what) {
    return Fail(Code::kInvalidArgument, "'" + Shortened(text, 80) + "' " + what);
  };
  PolicyTarget target;
  if (const auto prefix = ParseIpPrefix(text)) {
    target.kind = PolicyTarget::Kind::kPrefix;
    target.prefix = *prefix;
    return target;
  }
  target.name = LowerCase(text);
  if (target.name.ends_with('.')) target.name.pop_back();
  if (target.name.starts_with("*.")) {
    target.kind = PolicyTarget::Kind::kWildcard;
    target.name.erase(0, 2);
  }
  if (std::string what = WrongWithName(target.name); !what.empty()) return wrong(what);
  return target;
}

Policy WithRules(const Policy& policy, std::vector<PolicyRule> added) {
  Policy merged;
  merged.default_action = policy.default_action;
  std::unordered_set<std::string> seen;
  const auto take = [&](PolicyRule rule) {
    if (seen.insert(LowerCase(rule.target)).second) merged.rules.push_back(std::move(rule));
  };
  for (PolicyRule& rule : added) take(std::move(rule));
  for (const PolicyRule& rule : policy.rules) take(rule);
  return merged;
}

Policy WithoutTargets(const Policy& policy, const std::vector<std::string>& targets,
                      size_t* removed) {
  std::unordered_set<std::string> gone;
  for (const std::string& target : targets) gone.insert(LowerCase(target));
  Policy rest;
  rest.default_action = policy.default_action;
  for (const PolicyRule& rule : policy.rules) {
    if (!gone.contains(LowerCase(rule.target))) rest.rules.push_back(rule);
  }
  *removed = policy.rules.size() - rest.rules.size();
  return rest;
}

}  // namespace atl::netpolicy
