#include "execd/run/notebook_probe.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>

#include "execd/run/loopback.h"

namespace atl::execd {
namespace {

constexpr uint16_t kNotebookPort = 44771;
// The text in the SDK's probe, within a line of bash that connects to this port.
constexpr std::string_view kQuestion = "/dev/tcp/127.0.0.1/${JUPYTER_PORT:-44771}";
constexpr const char* kPortVariable = "JUPYTER_PORT";

// Returns true if a server listens. On loopback a refusal is known when connect returns, although
// only poll reports it. A connection that is still pending then waits in the queue of a busy
// server.
Result<bool> SomebodyListens(uint16_t port) {
  ATOLL_ASSIGN(const UniqueFd fd, OpenTcpSocket());
  const sockaddr_in address = LoopbackAddress(port);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return true;
  }
  if (errno != EINPROGRESS) return errno != ECONNREFUSED;
  pollfd state{.fd = fd.get(), .events = POLLOUT, .revents = 0};
  return ::poll(&state, 1, 0) != 1 || (state.revents & POLLERR) == 0;
}

}  // namespace

Result<UniqueFd> AnswerNotebookProbe(std::string_view command, Environment* env) {
  if (command.find(kQuestion) == std::string_view::npos) return UniqueFd();
  if (const char* port = env->Get(kPortVariable); port && *port) return UniqueFd();
  ATOLL_ASSIGN(const bool taken, SomebodyListens(kNotebookPort));
  if (taken) return UniqueFd();
  ATOLL_ASSIGN(UniqueFd fd, OpenTcpSocket());
  ATOLL_ASSIGN(const uint16_t port, BindLoopback(fd.get()));
  if (::listen(fd.get(), 1) != 0) return FailSys("listen on 127.0.0.1");
  env->Set(kPortVariable, std::to_string(port));
  return fd;
}

}  // namespace atl::execd
