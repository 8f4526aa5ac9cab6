// The way in without a key: <run_dir>/admin.sock. The kernel says who connects, and root is an
// admin. So an operator whose keys are lost, or whose provider is away, still reaches the API. A
// daemon without tenants has no such socket.
//
// Thread rule: on the loop, but for Bind.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/base/acceptor.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/daemon/config.h"
#include "runtime/http/pooled_loop.h"
#include "runtime/http/server.h"
#include "runtime/tenants/identity.h"

namespace atl::daemon {

std::string AdminSocketPath(const Config& config);

// Listens on the socket. Call as root, with the lock of run_dir held: the socket of an earlier
// daemon is replaced.
Result<UniqueFd> BindAdminSocket(const Config& config);

class AdminSocket {
 public:
  // Handles a request of root, who is `identity`. Its id names the login user.
  using Handle =
      std::function<void(std::shared_ptr<http::Exchange>, const tenants::Identity& identity)>;

  static Result<std::unique_ptr<AdminSocket>> Serve(http::PooledLoop& loop, UniqueFd listener,
                                                    Handle handle);

 private:
  AdminSocket(http::PooledLoop& loop, UniqueFd listener, Handle handle)
      : loop_(loop), listener_(std::move(listener)), handle_(std::move(handle)) {}
  void Welcome(UniqueFd socket);

  http::PooledLoop& loop_;
  const UniqueFd listener_;
  const Handle handle_;
  std::unique_ptr<Acceptor> acceptor_;
  size_t open_ = 0;  // connections
};

}  // namespace atl::daemon
