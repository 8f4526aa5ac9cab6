// Runs the interceptor (intercept/README.md) of one sandbox as a child process, with the daemon's
// user and without its capabilities. Both the process and this object hold the vault, so the next
// connection restarts a process that has ended.
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
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::sandbox {

struct InterceptorProgram {
  std::string path;  // path of atoll-intercept
  // PEM file of the certificate authorities that the interceptor trusts in servers.
  std::string authorities;
};

class InterceptorProcess final : public netpolicy::Interceptor {
 public:
  // `program` outlives this object. The constructor starts no process.
  InterceptorProcess(Loop& loop, const InterceptorProgram& program, std::string sandbox_id,
                     intercept::Authority authority)
      : loop_(loop),
        program_(program),
        sandbox_id_(std::move(sandbox_id)),
        authority_(std::move(authority)) {}
  InterceptorProcess(const InterceptorProcess&) = delete;
  InterceptorProcess& operator=(const InterceptorProcess&) = delete;
  ~InterceptorProcess() override { Stop(); }

  using Done = std::function<void(Status)>;
  // Replaces the vault for new connections and requests. Calls `done` now or later, once the
  // process uses the vault. After an error the old vault stays.
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
  void OnAnswer();
  void Answered(const Status& status);

  Loop& loop_;
  const InterceptorProgram& program_;
  const std::string sandbox_id_;
  const intercept::Authority authority_;
  vault::Vault vault_;
  UniqueFd line_;     // invalid: no process
  UniqueFd process_;  // pidfd of the process
  Loop::Id watch_ = 0;
  bool ready_ = false;
  int64_t started_us_ = 0;
  struct Change {
    vault::Vault former;
    Done done;
  };
  std::vector<Change> waiting_;
};

}  // namespace atl::sandbox
