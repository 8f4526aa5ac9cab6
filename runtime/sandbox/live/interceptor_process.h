// The interceptor (intercept/README.md) of one sandbox. The spawner starts its process in the
// sandbox's cgroup, with the daemon's user and without capabilities. Both the process and this
// object hold the vault, so the next connection restarts a process that has ended.
//
// Thread rule: on the loop; no call blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "netpolicy/intercept/authority.h"
#include "netpolicy/splice/interceptor.h"
#include "netpolicy/vault/document.h"
#include "runtime/base/guard.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/wire/reply.h"

namespace atl::launch {
class SpawnerClient;
}

namespace atl::sandbox {

class InterceptorProcess final : public netpolicy::Interceptor {
 public:
  // The references outlive this object. `authorities`: PEM file of the certificate authorities that
  // the interceptor trusts in servers. The constructor starts no process.
  InterceptorProcess(Loop& loop, launch::SpawnerClient& spawner, const std::string& authorities,
                     std::string sandbox_id, intercept::Authority authority)
      : loop_(loop),
        spawner_(spawner),
        authorities_(authorities),
        sandbox_id_(std::move(sandbox_id)),
        authority_(std::move(authority)) {}
  InterceptorProcess(const InterceptorProcess&) = delete;
  InterceptorProcess& operator=(const InterceptorProcess&) = delete;
  ~InterceptorProcess() override { Stop(); }

  using Done = std::function<void(Status)>;
  // Sets the slot in which the sandbox lives. The process of another slot ends, with its open
  // connections; the next connection starts one in this slot.
  void Follow(uint32_t slot);
  // Replaces the vault for new connections and requests. Calls `done` now or later, once the
  // process uses the vault, within 30 seconds. After an error the old vault stays.
  void SetVault(vault::Vault vault, Done done);
  const vault::Vault& vault() const { return vault_; }
  // Removes all credentials. Open connections go on.
  void Empty();

  bool Wants(std::string_view name, bool tls, uint16_t port) override;
  Result<UniqueFd> Take(netpolicy::InterceptedConnection connection) override;

 private:
  Status Start();
  Status Tell(const vault::Vault& vault);
  void Stop();
  void OnStarted(uint64_t start, Result<wire::Interceptor> started);
  void OnAnswer();
  // Ends the process, and the changes that wait for it.
  void Failed(const std::string& why, Code code = Code::kFailedPrecondition);
  void Answered(const Status& status);

  Loop& loop_;
  launch::SpawnerClient& spawner_;
  const std::string& authorities_;
  const std::string sandbox_id_;
  const intercept::Authority authority_;
  vault::Vault vault_;
  uint32_t slot_ = 0;
  UniqueFd line_;     // invalid: no process
  UniqueFd process_;  // pidfd of the process; invalid until the spawner has started it
  uint64_t starts_ = 0;
  Loop::Id watch_ = 0;
  bool ready_ = false;
  Loop::Id deadline_ = 0;  // time limit until it is ready
  int64_t started_us_ = 0;
  struct Change {
    vault::Vault former;
    Done done;
  };
  std::vector<Change> waiting_;
  const Guard guard_;
};

}  // namespace atl::sandbox
