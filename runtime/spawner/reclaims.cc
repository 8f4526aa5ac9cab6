#include "runtime/spawner/reclaims.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/unique_fd.h"
#include "runtime/spawner/worker.h"

namespace atl::spawner {
namespace {

// Then it stays a dying group like others; a disk that is busy with what the sandbox has written
// keeps nobody's slot.
constexpr unsigned kReclaimSeconds = 2;
// A pass has pages that are not on the disk yet written, and waits for that briefly (v1) or not at
// all (v2).
constexpr int kTries = 4;
constexpr int kWriteMs = 50;
// The first may go before other processors have settled what they have counted ahead.
constexpr int kLimits = 2;

[[noreturn]] void Child(int reclaim, const cgroup::ChargeFiles& charges) {
  constexpr int kFile = 3, kFirst = 4, kSecond = 5, kLimit = 6;
  constexpr const char* kName = "atoll-reclaim";
  constexpr int kNice = 5;
  const bool hybrid = charges.all.valid(), v2 = charges.counts.valid();
  if (hybrid) {
    BecomeWorker(kName, kNice,
                 {reclaim, charges.all.get(), charges.of_kernel.get(), charges.limit.get()});
  } else if (v2) {
    BecomeWorker(kName, kNice, {reclaim, charges.settle.get(), charges.counts.get()});
  } else {
    BecomeWorker(kName, kNice, {reclaim});
  }
  ::alarm(kReclaimSeconds);
  const auto is_empty = [&] {
    return hybrid ? cgroup::OnlyKernelMemory(kFirst, kSecond)
                  : v2 && cgroup::NothingInCaches(kFirst, kSecond);
  };
  // Most have left nothing that is charged to them.
  for (int i = 0; hybrid && i < kLimits && !is_empty(); ++i) {
    cgroup::LimitToKernelMemory(kSecond, kLimit);
  }
  for (int i = 0; i < kTries && !is_empty(); ++i) {
    // On hybrid hosts the second pass settles what has been counted ahead.
    if (i > (hybrid ? 1 : 0)) ::poll(nullptr, 0, kWriteMs);
    const ssize_t n = ::write(kFile, cgroup::kReclaimAll, sizeof cgroup::kReclaimAll - 1);
    if (n < 0 && errno != EAGAIN) break;
  }
  ::_exit(0);
}

}  // namespace

bool Reclaims::Wanted() const {
  return cgroups_.Dying() > kMost;
}

bool Reclaims::Start(const std::string& group, const std::string& id) {
  const auto reclaim = cgroups_.OpenReclaim(group);
  if (!reclaim) return false;
  const cgroup::ChargeFiles charges = cgroups_.OpenCharges(group);
  const pid_t pid = ::fork();
  if (pid == 0) Child(reclaim->get(), charges);
  if (pid > 0) runs_[pid] = id;
  return pid > 0;
}

std::optional<std::string> Reclaims::OnChildExit(pid_t pid) {
  const auto run = runs_.extract(pid);
  if (!run) return std::nullopt;
  return run.mapped();
}

}  // namespace atl::spawner
