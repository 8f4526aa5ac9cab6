#include "runtime/spawner/page_out.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <thread>

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

std::atomic<bool> over = false;    // the time is
std::atomic<bool> enough = false;  // for the second of two

cgroup::Paging ReadPagingOf(bool counted_apart) {
  return cgroup::ReadPaging(kPagingStat, counted_apart ? kPagingSwap : -1);
}

void MakePasses(int reclaim, bool counted_apart, const std::atomic<bool>& stop) {
  uint64_t left = ReadPagingOf(counted_apart).resident_bytes;
  for (int in_vain = 0; in_vain < kPassesInVain && !stop && left > kFew;) {
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

void PressToo(int ended, bool counted_apart) {
  MakePasses(kPressToo, counted_apart, enough);
  [[maybe_unused]] const ssize_t n = ::write(ended, "", 1);
}

[[noreturn]] void PageOut(int result_pipe, const cgroup::PagingFiles& files) {
  const bool counted_apart = files.swap.valid();
  BecomeWorker("atoll-pageout", 5,
               {result_pipe, files.reclaim[0].get(), files.reclaim[1].get(), files.stat.get(),
                counted_apart ? files.swap.get() : files.stat.get()});
  // Without SA_RESTART: it ends the write.
  struct sigaction action {};
  action.sa_handler = [](int) { over = enough = true; };
  ::sigaction(SIGALRM, &action, nullptr);
  // The kernel compresses each page on the processor of whoever asks, so two do. The alarm is for
  // the one that answers.
  const Result<sys::Pipe> ended = sys::MakePipe();
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  ::pthread_sigmask(SIG_BLOCK, &alarm, nullptr);
  bool beside = ended.has_value();
  try {
    if (beside) std::thread(PressToo, ended->write.get(), counted_apart).detach();
  } catch (const std::system_error&) {  // the host has no room for a thread: alone, then
    beside = false;
  }
  ::pthread_sigmask(SIG_UNBLOCK, &alarm, nullptr);
  ::alarm(kPageOutSeconds);
  MakePasses(kPress, counted_apart, over);
  // Beside each other they count wrong: what one has in hand is nowhere, and of 500 groups 13
  // looked empty in the middle. So whoever answers looks again, alone.
  enough = true;
  if (beside) {
    pollfd end{ended->read.get(), POLLIN, 0};
    if (!over) ::poll(&end, 1, kPageOutSeconds * 1000);
    MakePasses(kPress, counted_apart, over);
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
