#include "runtime/api/ingress/egress_api.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "netpolicy/policy/policy_json.h"
#include "runtime/api/ingress/auth.h"
#include "runtime/api/ingress/plain_answer.h"
#include "runtime/api/ingress/vault_api.h"
#include "runtime/base/base64.h"
#include "runtime/base/json_text.h"
#include "runtime/base/same_secret.h"
#include "runtime/base/sha256.h"

namespace atl::api {
namespace {

constexpr size_t kMaxPolicyBody = 1 << 20;
constexpr size_t kTokenBytes = 24;  // the size of upstream's token
constexpr char kEgressMethods[] = "GET, POST, PUT, PATCH, DELETE";

// The policy that the request asks for, computed from the present one.
struct Change {
  netpolicy::Policy policy;
  std::string reason;
};

Result<Change> ChangeOf(const std::string& method, const std::string& body,
                        const netpolicy::Policy& now) {
  Change change;
  if (method == "PATCH") {
    ATOLL_ASSIGN(auto added, netpolicy::ParsePolicyRules(body));
    change.policy = netpolicy::WithRules(now, std::move(added));
    if (change.policy.rules.size() > netpolicy::kMaxPolicyRules) {
      return Fail(Code::kResourceExhausted,
                  "the policy would have " + std::to_string(change.policy.rules.size()) +
                      " rules; it may have " + std::to_string(netpolicy::kMaxPolicyRules));
    }
  } else if (method == "DELETE") {
    ATOLL_ASSIGN(const auto targets, netpolicy::ParsePolicyTargets(body));
    size_t removed = 0;
    change.policy = netpolicy::WithoutTargets(now, targets, &removed);
    if (removed == 0) change.reason = "no rule has one of these targets";
  } else if (body.find_first_not_of(" \t\r\n") == std::string::npos) {
    change.reason = "policy reset to deny all";
  } else {
    ATOLL_ASSIGN(change.policy, netpolicy::ParsePolicy(body));
  }
  return change;
}

// Returns the sandbox's policy. A sandbox without one may reach everything that the operator does
// not protect; this is shown as "allow" without rules.
netpolicy::SharedPolicy PolicyOf(const netpolicy::Network& network,
                                 const sandbox::Sandbox& sandbox) {
  netpolicy::SharedPolicy policy = network.PolicyOf(sandbox.slot);
  if (policy) return policy;
  return netpolicy::Share({.default_action = netpolicy::Action::kAllow, .rules = {}});
}

void RespondPolicy(const Call& call, const netpolicy::Policy& policy, const std::string& reason) {
  nlohmann::json body{
      {"status", "ok"}, {"mode", netpolicy::ModeOf(policy)}, {"enforcementMode", "dns+nft"}};
  if (!reason.empty()) body["reason"] = reason;
  std::string text = JsonText(body);
  // Appends the policy as text: it is already JSON, and may be large.
  text.pop_back();
  RespondJson(call, 200, text + ",\"policy\":" + netpolicy::PolicyToJson(policy) + "}");
}

// Adds to the audit log which rules the change removes and adds.
void AuditChange(const Call& call, const netpolicy::Policy& before,
                 const netpolicy::Policy& after) {
  if (!call.audit()) return;
  const auto text_of = [](const netpolicy::Policy& policy) {
    std::vector<std::string> rules;
    for (const netpolicy::PolicyRule& rule : policy.rules) {
      std::string text = rule.action == netpolicy::Action::kAllow ? "allow " : "deny ";
      text.append(rule.target);
      for (const uint16_t port : rule.ports) text.append(":").append(std::to_string(port));
      rules.push_back(std::move(text));
    }
    std::sort(rules.begin(), rules.end());
    return rules;
  };
  const auto missing = [](const std::vector<std::string>& all, const std::vector<std::string>& in) {
    std::vector<std::string> gone;
    std::set_difference(all.begin(), all.end(), in.begin(), in.end(), std::back_inserter(gone));
    std::string text;
    for (const std::string& rule : gone) text.append(text.empty() ? "" : ", ").append(rule);
    return text;
  };
  const auto old_rules = text_of(before), new_rules = text_of(after);
  call.audit()->AddFact("rules", static_cast<int64_t>(after.rules.size()));
  if (before.default_action != after.default_action) {
    call.audit()->AddFact("default",
                          after.default_action == netpolicy::Action::kAllow ? "allow" : "deny");
  }
  call.audit()->AddFact("added", missing(new_rules, old_rules));
  call.audit()->AddFact("removed", missing(old_rules, new_rules));
}

void ChangePolicy(const Call& call, sandbox::Sandboxes& sandboxes, netpolicy::Network& network,
                  const std::string& id, const std::string& body) {
  const sandbox::Sandbox* sandbox = sandboxes.registry.Find(call.caller(), id);
  if (sandbox == nullptr) return RespondText(call, 404, "sandbox " + id + " is gone");
  const netpolicy::SharedPolicy before = PolicyOf(network, *sandbox);
  auto change = ChangeOf(call.request().method, body, *before);
  if (!change) return RespondError(call, change.error());
  const netpolicy::SharedPolicy policy = netpolicy::Share(std::move(change->policy));
  if (Status set = sandboxes.changes.SetPolicy(call.caller(), id, policy); !set)
    return RespondError(call, set.error());
  AuditChange(call, *before, *policy);
  RespondPolicy(call, *policy, change->reason);
}

}  // namespace

std::string EgressToken(const std::string& secret, const std::string& api_key,
                        const std::string& sandbox_id) {
  // The first parts have a fixed size. The truncated digest prevents length extension.
  const std::string digest =
      Sha256("atoll egress token\n" + secret + "\n" + sandbox_id + "\n" + api_key);
  return EncodeBase64Url(std::string_view(digest).substr(0, kTokenBytes));
}

void ServePolicy(const Call& call, sandbox::Sandboxes& sandboxes, netpolicy::Network& network,
                 const std::string& id) {
  if (call.request().method == "GET") {
    return RespondPolicy(call, *PolicyOf(network, *sandboxes.registry.Find(call.caller(), id)), {});
  }
  call.exchange().ReadBody(kMaxPolicyBody,
                           [call, &sandboxes, &network, id](Result<std::string> body) {
                             if (!body) return RespondError(call, body.error());
                             ChangePolicy(call, sandboxes, network, id, *body);
                           });
}

void ServeEgress(const Call& call, sandbox::Sandboxes& sandboxes, netpolicy::Network& network,
                 const std::string* token, const std::string& id, std::string_view rest) {
  const http::Request& request = call.request();
  const std::string_view path = rest.substr(0, rest.find('?'));
  if (path == "/healthz") {
    if (request.method != "GET" && request.method != "HEAD") return RespondAllowed(call, "GET");
    return RespondText(call, 200, "ok");
  }
  const bool vault = path == kVaultPath || path.starts_with(std::string(kVaultPath) + "/");
  if (path != "/policy" && !vault) {
    return RespondText(call, 404, "use /policy, /credential-vault or /healthz");
  }
  if (token != nullptr && !SameSecret(request.headers.Get(kEgressTokenHeader), *token)) {
    return RespondText(call, 401, "unauthorized");
  }
  if (vault) return ServeVault(call, sandboxes.changes, id, path.substr(sizeof kVaultPath - 1));
  if (request.method != "GET" && request.method != "POST" && request.method != "PUT" &&
      request.method != "PATCH" && request.method != "DELETE") {
    return RespondAllowed(call, kEgressMethods);
  }
  ServePolicy(call, sandboxes, network, id);
}

}  // namespace atl::api
