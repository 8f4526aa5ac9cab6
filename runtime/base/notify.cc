#include "runtime/base/notify.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace atl {
namespace {

// Returns 0 if the variable is not a number.
int64_t NumberIn(const char* variable) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here changes the environment.
  const char* text = std::getenv(variable);
  if (text == nullptr) return 0;
  int64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  return error == std::errc() && rest == end ? value : 0;
}

}  // namespace

void NotifySystemd(std::string_view state) {
  NotifySystemd(state, -1);
}

void NotifySystemd(std::string_view state, int fd) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here changes the environment.
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || (path[0] != '/' && path[0] != '@')) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t size = std::strlen(path);
  if (size >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, path, size);
  if (path[0] == '@') address.sun_path[0] = '\0';  // the abstract namespace
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return;
  std::string text(state);
  iovec iov{text.data(), text.size()};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size);
  message.msg_iov = &iov;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)]{};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  (void)::sendmsg(socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

UniqueFd TakeStored(std::string_view name) {
  constexpr int kFirst = 3;  // SD_LISTEN_FDS_START
  if (NumberIn("LISTEN_PID") != ::getpid()) return {};
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here changes the environment.
  const char* names = std::getenv("LISTEN_FDNAMES");
  std::string_view rest = names == nullptr ? "" : names;
  for (int fd = kFirst; fd < kFirst + NumberIn("LISTEN_FDS") && !rest.empty(); ++fd) {
    const size_t colon = std::min(rest.find(':'), rest.size());
    const bool found = rest.substr(0, colon) == name;
    rest.remove_prefix(std::min(colon + 1, rest.size()));
    if (!found || ::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) continue;
    return UniqueFd(fd);
  }
  return {};
}

std::string ReloadingState() {
  // systemd compares with CLOCK_MONOTONIC, which is not the clock of Clock.
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return "RELOADING=1\nMONOTONIC_USEC=" +
         std::to_string(int64_t{now.tv_sec} * 1000000 + now.tv_nsec / 1000);
}

int64_t WatchdogMicros() {
  // The variables were inherited, but are meant for another process.
  const int64_t pid = NumberIn("WATCHDOG_PID");
  if (pid != 0 && pid != ::getpid()) return 0;
  return NumberIn("WATCHDOG_USEC");
}

}  // namespace atl
