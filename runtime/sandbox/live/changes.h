// Applies clients' changes to a live sandbox: its deadline, labels, network policy, credential
// vault, and the channel for its isolated sessions.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "netpolicy/network.h"
#include "runtime/base/clock.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/live/session_channels.h"
#include "runtime/sandbox/live/vaults.h"
#include "runtime/sandbox/state/expiry.h"
#include "runtime/sandbox/state/machine.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/sandbox/state/terms.h"
#include "runtime/sandbox/store/history.h"
#include "runtime/sandbox/store/store.h"
#include "runtime/tenants/caller.h"

namespace atl::sandbox {

class Changes {
 public:
  // All parts outlive this object.
  struct Parts {
    const Clock& clock;
    netpolicy::Network& network;
    Store& store;
    History& history;
    Expiry& expiry;
    Vaults& vaults;
    SessionChannels& sessions;
    Registry& registry;
    Machine& machine;
    const TermsTable& terms;
  };
  // `renew_interval_seconds`: minimum time between two renewals of one sandbox by accesses; none:
  // accesses renew no deadline.
  Changes(const Parts& parts, std::optional<int64_t> renew_interval_seconds)
      : parts_(parts), renew_interval_seconds_(renew_interval_seconds) {
    parts_.registry.OnRemove([this](const Sandbox& sandbox) { touched_ms_.erase(&sandbox); });
  }
  Changes(const Changes&) = delete;
  Changes& operator=(const Changes&) = delete;

  // Moves the deadline. kNotFound. kFailedPrecondition: the sandbox has no deadline.
  // kInvalidArgument: the new deadline is not in the future. kPermissionDenied: it is later than
  // the terms of its tenant allow.
  Status Renew(const tenants::Caller& caller, const std::string& id, int64_t expires_at_ms);
  // Call for each access: moves the deadline of a sandbox that asked for renewal by access. Cheap.
  // Reports no errors.
  void Touch(const tenants::Caller& caller, const std::string& id);
  // Patches labels: null removes a label, a value sets it, all other labels stay. kNotFound.
  // kInvalidArgument: too many labels. kAlreadyExists: see Registry::CheckName.
  using MetadataPatch = std::map<std::string, std::optional<std::string>>;
  Status PatchMetadata(const tenants::Caller& caller, const std::string& id,
                       const MetadataPatch& patch);

  // Replaces the egress policy. kNotFound. kInvalidArgument: the policy is invalid, or denies a
  // host that the vault has credentials for. kPermissionDenied: the terms of its tenant lock the
  // policy, or do not allow the new one. After any error, also of the store or the network, the old
  // policy stays in force.
  Status SetPolicy(const tenants::Caller& caller, const std::string& id,
                   netpolicy::SharedPolicy policy);

  // Returns the credential vault; null if the sandbox has none. kNotFound. kFailedPrecondition: the
  // sandbox cannot have a vault.
  Result<const vault::Vault*> FindVault(const tenants::Caller& caller, const std::string& id) const;
  // See Vaults::Set. kInvalidArgument: the sandbox's network policy does not cover the vault.
  void SetVault(const tenants::Caller& caller, const std::string& id, vault::Vault vault,
                std::function<void(Status)> done);
  Status RemoveVault(const tenants::Caller& caller, const std::string& id);

  // Call before a client's request that may make the sandbox's execd ask for an isolated session.
  void OpenSessions(const tenants::Caller& caller, const std::string& id);

 private:
  const Parts parts_;
  const std::optional<int64_t> renew_interval_seconds_;
  std::unordered_map<const Sandbox*, int64_t> touched_ms_;  // times when accesses moved deadlines
};

}  // namespace atl::sandbox
