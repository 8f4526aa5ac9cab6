#include "runtime/spawner/page_out.h"

#include <poll.h>
#include <signal.h>
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

volatile sig_atomic_t over = 0;

[[noreturn]] void PageOut(int result_pipe, const cgroup::PagingFiles& files) {
  constexpr int kResult = 3, kReclaim = 4, kStat = 5, kSwap = 6;
  const bool counted_apart = files.swap.valid();
  if (counted_apart) {
    BecomeWorker("atoll-pageout", 5,
                 {result_pipe, files.reclaim.get(), files.stat.get(), files.swap.get()});
  } else {
    BecomeWorker("atoll-pageout", 5, {result_pipe, files.reclaim.get(), files.stat.get()});
  }
  const int swap = counted_apart ? kSwap : -1;
  // Without SA_RESTART: it ends the write.
  struct sigaction action {};
  action.sa_handler = [](int) { over = 1; };
  ::sigaction(SIGALRM, &action, nullptr);
  ::alarm(kPageOutSeconds);
  cgroup::Paging paging = cgroup::ReadPaging(kStat, swap);
  for (int in_vain = 0; in_vain < kPassesInVain && over == 0 && paging.resident_bytes > kFew;) {
    const uint64_t before = paging.resident_bytes;
    const ssize_t n = ::write(kReclaim, cgroup::kReclaimAll, sizeof cgroup::kReclaimAll - 1);
    if (n < 0 && errno != EAGAIN && errno != EINTR) break;
    paging = cgroup::ReadPaging(kStat, swap);
    if (paging.resident_bytes + kFew / 4 < before) {
      in_vain = 0;
    } else {
      ::poll(nullptr, 0, std::min(kRestMs << in_vain++, kLongestRestMs));
    }
  }
  const wire::Reclaimed reclaimed{paging.swapped_bytes, paging.resident_bytes};
  ::_exit(sys::WriteAll(kResult, wire::EncodeFields(reclaimed)) ? 0 : 1);
}

}  // namespace

Result<pid_t> StartPageOut(const cgroup::PagingFiles& files, int result) {
  const pid_t pid = ::fork();
  if (pid < 0) return FailSys("fork");
  if (pid == 0) PageOut(result, files);
  return pid;
}

}  // namespace atl::spawner
