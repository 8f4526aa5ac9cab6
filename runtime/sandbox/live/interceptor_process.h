// An interceptor (intercept/README.md) as a process of ours: one sandbox's, with the daemon's user
// and nothing of its rights. It knows the vault as long as it lives, and so do we, so that one that
// has ended is started again by the next connection that needs it.
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
  std::string path;         // of atoll-intercept
  std::string authorities;  // PEM file of those that servers are believed by
};

class InterceptorProcess final : public netpolicy::Interceptor {
 public:
  // `program` outlives it. Nothing is started yet.
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
  // Of connections and requests from now on. `done` when it serves, later or at once; an error:
  // it does not, and the vault is what it was.
  void SetVault(vault::Vault vault, Done done);
  const vault::Vault& vault() const { return vault_; }
  // No credentials from now on; connections that are there go on.
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
  UniqueFd line_;     // invalid: there is no process
  UniqueFd process_;  // its pidfd
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
