#include "runtime/spawner/worker.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace atl::spawner {

void BecomeWorker(const char* name, int nice, std::initializer_list<int> keep) {
  constexpr int kFirst = 3;
  constexpr int kMost = 8;
  constexpr int kAbove = 64;
  ::prctl(PR_SET_NAME, name);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setpriority(PRIO_PROCESS, 0, nice);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  int lifted[kMost];
  int count = 0;
  // All out of the way first: one may stand where another is to go.
  for (const int fd : keep) {
    if (count == kMost || (lifted[count++] = ::fcntl(fd, F_DUPFD_CLOEXEC, kAbove)) < 0) ::_exit(1);
  }
  for (int i = 0; i < count; ++i) {
    if (::dup3(lifted[i], kFirst + i, O_CLOEXEC) < 0) ::_exit(1);
  }
  ::close_range(static_cast<unsigned>(kFirst + count), ~0u, 0);
}

}  // namespace atl::spawner
