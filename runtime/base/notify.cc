#include "runtime/base/notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "runtime/base/unique_fd.h"

namespace atl {
namespace {

// 0 for what is no number.
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
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size);
  (void)::sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                 reinterpret_cast<const sockaddr*>(&address), length);
}

std::string ReloadingState() {
  // Not our clock type: systemd compares with CLOCK_MONOTONIC.
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return "RELOADING=1\nMONOTONIC_USEC=" +
         std::to_string(int64_t{now.tv_sec} * 1000000 + now.tv_nsec / 1000);
}

int64_t WatchdogMicros() {
  // Meant for another process, the variables were inherited.
  const int64_t pid = NumberIn("WATCHDOG_PID");
  if (pid != 0 && pid != ::getpid()) return 0;
  return NumberIn("WATCHDOG_USEC");
}

}  // namespace atl
