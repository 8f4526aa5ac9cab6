// The credential vaults of sandboxes. They exist in memory only, so a restarted daemon has none of
// them. A vault is in force before its client gets the answer, and follows the sandbox to a new
// slot.
//
// Thread rule: on the loop; no call blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "netpolicy/network.h"
#include "netpolicy/policy/egress.h"
#include "netpolicy/vault/document.h"
#include "runtime/base/fair_places.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/live/interceptor_process.h"
#include "runtime/sandbox/record/sandbox.h"

namespace atl::sandbox {

// Each vault has a process, a socket and watches of the daemon.
inline constexpr size_t kMaxVaults = 256;

class Vaults {
 public:
  // The references outlive this object. `authorities`: PEM file of the certificate authorities that
  // interceptors trust in servers.
  Vaults(Loop& loop, netpolicy::Network& network, launch::SpawnerClient& spawner,
         std::string authorities)
      : loop_(loop), network_(network), spawner_(spawner), authorities_(std::move(authorities)) {}
  Vaults(const Vaults&) = delete;
  Vaults& operator=(const Vaults&) = delete;

  // Returns null if the sandbox has no vault. Valid until the next call.
  const vault::Vault* Find(const std::string& id) const;
  // Sets the vault. kUnavailable: the interceptor does not run. kResourceExhausted: of
  // kMaxVaults, none is left for the sandbox's tenant. After an error the old vault stays.
  void Set(const Sandbox& sandbox, vault::Vault vault, std::function<void(Status)> done);
  // Removes the vault. Open connections go on without credentials. Succeeds if there is no vault.
  void Remove(const std::string& id);
  // Call when the sandbox has got a slot, with or without a vault.
  void Attach(const std::string& id, uint32_t slot);

  // kInvalidArgument: `egress` denies a host that the sandbox's vault has credentials for; the
  // message names the first such host.
  Status CheckPolicy(const std::string& id, const netpolicy::Egress& egress) const;

 private:
  Loop& loop_;
  netpolicy::Network& network_;
  launch::SpawnerClient& spawner_;
  const std::string authorities_;
  struct Entry {
    std::shared_ptr<InterceptorProcess> process;
    uint32_t slot = 0;
    FairPlaces::Place place;
  };
  std::map<std::string, Entry> entries_;
  FairPlaces places_{kMaxVaults};
};

// Like Vaults::CheckPolicy, for any vault.
Status CheckCovered(const vault::Vault& vault, const netpolicy::Egress& egress);

}  // namespace atl::sandbox
