// The credential vaults of sandboxes, in memory alone: a daemon that starts knows none of the one
// before. A vault is in force with the answer to who has set it, wherever the sandbox's slot is.
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
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/live/interceptor_process.h"
#include "runtime/sandbox/record/sandbox.h"

namespace atl::sandbox {

// Each has a process of a few MiB, which is charged to the daemon.
inline constexpr size_t kMaxVaults = 256;

class Vaults {
 public:
  // Both outlive it.
  Vaults(Loop& loop, netpolicy::Network& network, InterceptorProgram program)
      : loop_(loop), network_(network), program_(std::move(program)) {}
  Vaults(const Vaults&) = delete;
  Vaults& operator=(const Vaults&) = delete;

  // Null: it has none. Valid until the next call.
  const vault::Vault* Find(const std::string& id) const;
  // kUnavailable: what would put the credentials in does not run, kResourceExhausted: kMaxVaults
  // are there; all is as it was.
  void Set(const Sandbox& sandbox, vault::Vault vault, std::function<void(Status)> done);
  // What is under way of its connections goes on without credentials. Absent is no error.
  void Remove(const std::string& id);
  // A slot has become the sandbox's, with or without a vault.
  void Attach(const std::string& id, uint32_t slot);

  // Whether `egress` lets through to all hosts that the sandbox's vault has credentials for;
  // kInvalidArgument names the first that it does not.
  Status CheckPolicy(const std::string& id, const netpolicy::Egress& egress) const;

 private:
  Loop& loop_;
  netpolicy::Network& network_;
  const InterceptorProgram program_;
  struct Entry {
    std::shared_ptr<InterceptorProcess> process;
    uint32_t slot = 0;
  };
  std::map<std::string, Entry> entries_;
};

// The same of any vault.
Status CheckCovered(const vault::Vault& vault, const netpolicy::Egress& egress);

}  // namespace atl::sandbox
