#include "tools/atoll/client/interrupt.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/sys.h"

namespace atl::cli {
namespace {

volatile sig_atomic_t caught = 0;
int write_end = -1;

void OnSignal(int number) {
  const int saved = errno;
  caught = number;
  [[maybe_unused]] const ssize_t n = write(write_end, "", 1);
  errno = saved;
}

}  // namespace

Result<int> CatchInterrupts() {
  ATOLL_ASSIGN(sys::Pipe pipe, sys::MakePipe());
  write_end = pipe.write.release();
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    if (sigaction(number, &action, nullptr) != 0) return FailSys("sigaction");
  }
  return pipe.read.release();
}

int CaughtSignal() {
  return caught;
}

bool WaitForInterrupt(int interrupt_fd, int milliseconds) {
  pollfd wanted{interrupt_fd, POLLIN, 0};
  return poll(&wanted, 1, milliseconds) != 0;
}

}  // namespace atl::cli
