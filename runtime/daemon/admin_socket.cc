#include "runtime/daemon/admin_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/sys.h"
#include "runtime/base/unix_address.h"

namespace atl::daemon {
namespace {

constexpr int kAdminBacklog = 16;
constexpr size_t kMostConnections = 64;

// Returns the user who logged in before becoming root: "root:1000". "root" if nobody did, for
// example in a service.
std::string NameOf(pid_t pid) {
  constexpr size_t kMaxText = 16;
  const auto text =
      sys::ReadFileAt(AT_FDCWD, "/proc/" + std::to_string(pid) + "/loginuid", kMaxText);
  const bool known = text && !text->empty() && *text != "4294967295";
  return known ? "root:" + *text : "root";
}

// Returns the process at the other end if it is root's.
std::optional<pid_t> RootPeer(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != 0) {
    return std::nullopt;
  }
  return peer.pid;
}

}  // namespace

std::string AdminSocketPath(const Config& config) {
  return config.run_dir + "/admin.sock";
}

Result<UniqueFd> BindAdminSocket(const Config& config) {
  const std::string path = AdminSocketPath(config);
  ATOLL_ASSIGN(const sockaddr_un address, UnixAddress(path));
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener) return FailSys("socket");
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return FailSys("unlink " + path);
  // The umask keeps the socket from others from the start on; only root passes the check below.
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return FailSys("bind " + path);
  }
  if (::chmod(path.c_str(), 0600) != 0) return FailSys("chmod " + path);
  if (::listen(listener.get(), kAdminBacklog) != 0) return FailSys("listen " + path);
  return listener;
}

Result<std::unique_ptr<AdminSocket>> AdminSocket::Serve(http::PooledLoop& loop, UniqueFd listener,
                                                        Handle handle) {
  std::unique_ptr<AdminSocket> admin(new AdminSocket(loop, std::move(listener), std::move(handle)));
  ATOLL_ASSIGN(admin->acceptor_,
               Acceptor::Start(loop, admin->listener_.get(), {.name = "admin.sock"},
                               [admin = admin.get()](Acceptor::Connection& connection) {
                                 admin->Welcome(std::move(connection.socket));
                               }));
  return admin;
}

void AdminSocket::Welcome(UniqueFd socket) {
  const auto pid = RootPeer(socket.get());
  if (!pid || open_ >= kMostConnections) {
    LogLine(LogLevel::kWarning, "a connection to admin.sock was refused")
        .Add("reason", pid ? "too many connections" : "not root");
    return;
  }
  const tenants::Identity identity{.key_id = NameOf(*pid), .role = tenants::Role::kAdmin};
  LogLine(LogLevel::kInfo, "root entered by admin.sock").Add("by", identity.key_id);
  const auto serving = http::ServeConnection(
      loop_, {},
      [this, identity](std::shared_ptr<http::Exchange> exchange) {
        handle_(std::move(exchange), identity);
      },
      std::move(socket), [this] { --open_; });
  if (serving) ++open_;
}

}  // namespace atl::daemon
