// Changes that clients make to a sandbox that lives: its deadline, its labels, its network policy,
// its credential vault, the line for its isolated sessions.
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
#include "runtime/sandbox/record/caller.h"
#include "runtime/sandbox/state/expiry.h"
#include "runtime/sandbox/state/machine.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/sandbox/store/history.h"
#include "runtime/sandbox/store/store.h"

namespace atl::sandbox {

class Changes {
 public:
  // All parts outlive it.
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
  };
  // `renew_interval_seconds`: accesses may renew those that ask for it, each at most once in this
  // time; none: they do not.
  Changes(const Parts& parts, std::optional<int64_t> renew_interval_seconds)
      : parts_(parts), renew_interval_seconds_(renew_interval_seconds) {
    parts_.registry.OnRemove([this](const Sandbox& sandbox) { touched_ms_.erase(&sandbox); });
  }
  Changes(const Changes&) = delete;
  Changes& operator=(const Changes&) = delete;

  // Moves the deadline. kNotFound; kFailedPrecondition: it has none. kInvalidArgument: not in the
  // future.
  Status Renew(const Caller& caller, const std::string& id, int64_t expires_at_ms);
  // Somebody has used the sandbox: moves the deadline of one that asked for it. Cheap, and never
  // fails visibly.
  void Touch(const Caller& caller, const std::string& id);
  // Null removes a label, anything else sets it; others stay as they are. kNotFound;
  // kInvalidArgument: too many; kAlreadyExists: see Registry::CheckName.
  using MetadataPatch = std::map<std::string, std::optional<std::string>>;
  Status PatchMetadata(const Caller& caller, const std::string& id, const MetadataPatch& patch);

  // Its egress policy, from now on. kNotFound; kInvalidArgument: the policy, or that its vault's
  // credentials are bound to what it denies; then, and if it cannot be stored or enforced, the one
  // before holds.
  Status SetPolicy(const Caller& caller, const std::string& id, netpolicy::SharedPolicy policy);

  // Its credential vault; null: it has none. kNotFound; kFailedPrecondition: it can have none.
  Result<const vault::Vault*> FindVault(const Caller& caller, const std::string& id) const;
  // See Vaults::Set; kInvalidArgument: its network policy does not cover the vault.
  void SetVault(const Caller& caller, const std::string& id, vault::Vault vault,
                std::function<void(Status)> done);
  Status RemoveVault(const Caller& caller, const std::string& id);

  // A request of a client's is on its way that the sandbox's execd may need the daemon for.
  void OpenSessions(const Caller& caller, const std::string& id);

 private:
  const Parts parts_;
  const std::optional<int64_t> renew_interval_seconds_;
  std::unordered_map<const Sandbox*, int64_t> touched_ms_;  // when accesses moved deadlines
};

}  // namespace atl::sandbox
