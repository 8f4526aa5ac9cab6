#include "runtime/base/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

namespace atl {
namespace {

constexpr int kCannotStart = 127;

// Opens the lowest free number. Without /dev/null, for example in a bare root, a pipe serves.
int OpenNothing(int flags) {
  const int null = ::open("/dev/null", flags | O_NOCTTY);
  if (null >= 0) return null;
  int ends[2];
  if (::pipe(ends) != 0) return -1;
  ::close(ends[1]);
  return ends[0];
}

}  // namespace

void OpenStandardStreams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // Output that nobody can see must not look like a success, so writing to it fails, as it did
    // while the descriptor was closed.
    if (OpenNothing(fd == STDERR_FILENO ? O_WRONLY : O_RDONLY) != fd) ::_exit(kCannotStart);
  }
}

}  // namespace atl
