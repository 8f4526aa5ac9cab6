#include "runtime/spawner/memory/page_out.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/worker.h"
#include "runtime/wire/reply.h"
#include "runtime/wire/spawner.h"

namespace atl::spawner {
namespace {

// Works by group, not by process, because the kernel knows what is in a group. To ask for each
// mapping of each process (process_madvise) takes as long (200 MiB in 230 to 350 ms either way),
// and a hostile sandbox can make that list as long as it likes. It misses what no process has
// mapped, and would evict pages of programs that all sandboxes share.
//
// A pass ends when the kernel finds nothing for a while, and may end at once: pages that were
// touched a moment ago, are on their way to the disk, or are in use do not go. A later pass finds
// them. What a disk has yet to write takes the longest, so each rest is twice the one before.
constexpr int kPassesInVain = 12;
constexpr int kRestMs = 2;
constexpr int kLongestRestMs = 200;
// The rest is then the sandbox's kernel memory, and pages that cannot go (mlock).
constexpr uint64_t kFew = 256 << 10;

volatile sig_atomic_t over = 0;

Result<cgroup::Paging> ReadPagingOf(const cgroup::PagingFiles& files) {
  return cgroup::ReadPaging(files.stat.get(), files.swap.get());
}

void MakePasses(const cgroup::PagingFiles& files, size_t which) {
  const int reclaim = files.reclaim[which].get();
  auto left = ReadPagingOf(files);
  for (int in_vain = 0;
       in_vain < kPassesInVain && over == 0 && left && left->resident_bytes > kFew;) {
    const uint64_t before = left->resident_bytes;
    const ssize_t n = ::write(reclaim, cgroup::kReclaimAll, sizeof cgroup::kReclaimAll - 1);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return;
    left = ReadPagingOf(files);
    if (left && left->resident_bytes + kFew / 4 < before) {
      in_vain = 0;
    } else {
      ::poll(nullptr, 0, std::min(kRestMs << in_vain++, kLongestRestMs));
    }
  }
}

constexpr Worker kWorker = {.name = "atoll-pageout", .nice = 5};

void PageOut(int result, const cgroup::PagingFiles& files) {
  // Without SA_RESTART the signal ends the write.
  struct sigaction action {};
  action.sa_handler = [](int) { over = 1; };
  ::sigaction(SIGALRM, &action, nullptr);
  // The kernel compresses each page on the processor of the caller, so two callers do.
  const auto beside =
      StartWorker(kWorker, {files.reclaim[1].get(), files.stat.get(), files.swap.get()},
                  [&] { MakePasses(files, 1); });
  ::alarm(kPageOutSeconds);
  MakePasses(files, 0);
  // Two that run side by side count wrong: the pages that one has in hand are counted nowhere, and
  // of 500 groups 13 looked empty in the middle. So the one that answers looks again, alone.
  if (beside) {
    ::kill(*beside, SIGKILL);
    ::waitpid(*beside, nullptr, 0);
    MakePasses(files, 0);
  }
  const auto paging = ReadPagingOf(files);
  // An answer of nothing is a failure.
  if (!paging) return;
  const wire::Reclaimed reclaimed{paging->swapped_bytes, paging->resident_bytes};
  [[maybe_unused]] const Status told = sys::WriteAll(result, wire::EncodeFields(reclaimed));
}

}  // namespace

Result<pid_t> StartPageOut(const cgroup::PagingFiles& files, int result) {
  return StartWorker(
      kWorker,
      {result, files.reclaim[0].get(), files.reclaim[1].get(), files.stat.get(), files.swap.get()},
      [&] { PageOut(result, files); });
}

}  // namespace atl::spawner
