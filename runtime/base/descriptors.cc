#include "runtime/base/descriptors.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <string>
#include <utility>

namespace atl {
namespace {

constexpr rlim_t kMostReserved = 64;
constexpr rlim_t kPart = 8;

std::atomic<int> g_streams_from{INT_MAX};
std::atomic<int> g_spare_from{INT_MAX};

int AtMostInt(rlim_t number) {
  return static_cast<int>(std::min<rlim_t>(number, INT_MAX));
}

}  // namespace

Status ReserveDescriptors() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return FailSys("getrlimit RLIMIT_NOFILE");
  const rlim_t reserve = std::min(kMostReserved, files.rlim_max / kPart);
  files.rlim_cur = files.rlim_max - reserve;
  if (::setrlimit(RLIMIT_NOFILE, &files) != 0) return FailSys("setrlimit RLIMIT_NOFILE");
  g_spare_from = AtMostInt(files.rlim_cur - reserve);
  g_streams_from = AtMostInt(files.rlim_cur - 2 * reserve);
  return {};
}

rlim_t LowDescriptorLimit() {
  rlimit files{};
  const bool low = ::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max < kEnoughDescriptors;
  return low ? files.rlim_max : 0;
}

bool IsSpare(int fd) {
  return fd >= g_spare_from;
}

bool IsPastSandboxes(int fd) {
  return fd >= g_streams_from;
}

Error NoDescriptors(std::string_view what, int fd) {
  const char* const kept = IsSpare(fd) ? "answering" : "commands of existing sandboxes";
  return Error(Code::kResourceExhausted,
               "no descriptor is left for " + std::string(what) + ": " + std::to_string(fd) +
                   " are in use, and the rest is reserved for " + kept +
                   "; delete sandboxes, close streams, or raise the limit of open files "
                   "(LimitNOFILE)",
               EMFILE);
}

UniqueFd AcceptReserved(int listener, sockaddr* peer, socklen_t* size) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return {};
  const rlim_t before = std::exchange(files.rlim_cur, files.rlim_max);
  if (::setrlimit(RLIMIT_NOFILE, &files) != 0) return {};
  UniqueFd accepted(::accept4(listener, peer, size, SOCK_NONBLOCK | SOCK_CLOEXEC));
  const int number = errno;
  files.rlim_cur = before;
  (void)::setrlimit(RLIMIT_NOFILE, &files);
  errno = number;
  return accepted;
}

}  // namespace atl
