#include "runtime/spawner/page_out.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "runtime/base/sys.h"
#include "runtime/spawner/worker.h"
#include "runtime/wire/reply.h"
#include "runtime/wire/spawner.h"

namespace atl::spawner {
namespace {

// By group, not by process: what is in a group the kernel knows. To ask for each mapping of each
// process (process_madvise) takes as long (200 MiB in 230 to 350 ms either way), and a list that a
// hostile sandbox can make as long as it likes; it misses what no process has mapped, and would put
// out the pages of programs that all sandboxes share.
//
// A pass gives up when it finds nothing for a while, be it at once: pages that were touched a
// moment ago, are on their way to the disk, or are looked at by somebody. One of the next finds
// them; what a disk has yet to write takes the longest, so each rest is twice the one before.
constexpr int kPassesInVain = 12;
constexpr int kRestMs = 2;
constexpr int kLongestRestMs = 200;
// What is left of a sandbox then is its kernel memory, and pages that cannot go (mlock).
constexpr uint64_t kFew = 256 << 10;

// In the child, as BecomeWorker places them.
enum : int { kPagedOut = 3, kPress, kPressToo, kPagingStat, kPagingSwap };

volatile sig_atomic_t over = 0;

cgroup::Paging ReadPagingOf(bool counted_apart) {
  return cgroup::ReadPaging(kPagingStat, counted_apart ? kPagingSwap : -1);
}

void MakePasses(int reclaim, bool counted_apart) {
  uint64_t left = ReadPagingOf(counted_apart).resident_bytes;
  for (int in_vain = 0; in_vain < kPassesInVain && over == 0 && left > kFew;) {
    const uint64_t before = left;
    const ssize_t n = ::write(reclaim, cgroup::kReclaimAll, sizeof cgroup::kReclaimAll - 1);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return;
    left = ReadPagingOf(counted_apart).resident_bytes;
    if (left + kFew / 4 < before) {
      in_vain = 0;
    } else {
      ::poll(nullptr, 0, std::min(kRestMs << in_vain++, kLongestRestMs));
    }
  }
}

[[noreturn]] void PageOut(int result_pipe, const cgroup::PagingFiles& files) {
  const bool counted_apart = files.swap.valid();
  BecomeWorker("atoll-pageout", 5,
               {result_pipe, files.reclaim[0].get(), files.reclaim[1].get(), files.stat.get(),
                counted_apart ? files.swap.get() : files.stat.get()});
  // Without SA_RESTART: it ends the write.
  struct sigaction action {};
  action.sa_handler = [](int) { over = 1; };
  ::sigaction(SIGALRM, &action, nullptr);
  // The kernel compresses each page on the processor of whoever asks, so two do.
  const pid_t beside = ::fork();
  if (beside == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    MakePasses(kPressToo, counted_apart);
    ::_exit(0);
  }
  ::alarm(kPageOutSeconds);
  MakePasses(kPress, counted_apart);
  // Beside each other they count wrong: what one has in hand is nowhere, and of 500 groups 13
  // looked empty in the middle. So whoever answers looks again, alone.
  if (beside > 0) {
    ::kill(beside, SIGKILL);
    ::waitpid(beside, nullptr, 0);
    MakePasses(kPress, counted_apart);
  }
  const cgroup::Paging paging = ReadPagingOf(counted_apart);
  const wire::Reclaimed reclaimed{paging.swapped_bytes, paging.resident_bytes};
  ::_exit(sys::WriteAll(kPagedOut, wire::EncodeFields(reclaimed)) ? 0 : 1);
}

}  // namespace

Result<pid_t> StartPageOut(const cgroup::PagingFiles& files, int result) {
  const pid_t pid = ::fork();
  if (pid < 0) return FailSys("fork");
  if (pid == 0) PageOut(result, files);
  return pid;
}

}  // namespace atl::spawner
