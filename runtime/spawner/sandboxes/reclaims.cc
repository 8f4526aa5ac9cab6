#include "runtime/spawner/sandboxes/reclaims.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/unique_fd.h"
#include "runtime/spawner/kernel/worker.h"

namespace atl::spawner {
namespace {

// After that the group stays a dying one like others. So a disk that is busy with what the sandbox
// has written keeps no slot.
constexpr unsigned kReclaimSeconds = 2;
// A pass starts the writing of pages that are not on the disk yet, and waits for that briefly (v1)
// or not at all (v2).
constexpr int kReclaimTries = 4;
constexpr int kWriteMs = 50;
// The first limit may act before other processors have settled what they have counted ahead.
constexpr int kLimits = 2;

void Empty(int reclaim, const cgroup::ChargeFiles& charges) {
  const bool hybrid = charges.all.valid(), v2 = charges.counts.valid();
  ::alarm(kReclaimSeconds);
  const auto is_empty = [&] {
    return hybrid ? cgroup::OnlyKernelMemory(charges.all.get(), charges.of_kernel.get())
                  : v2 && cgroup::NothingInCaches(charges.settle.get(), charges.counts.get());
  };
  // Most have left nothing but kernel memory.
  for (int i = 0; hybrid && i < kLimits && !is_empty(); ++i) {
    cgroup::LimitToKernelMemory(charges.of_kernel.get(), charges.limit.get());
  }
  for (int i = 0; i < kReclaimTries && !is_empty(); ++i) {
    // The second pass on hybrid hosts settles charges that were counted in advance.
    if (i > (hybrid ? 1 : 0)) ::poll(nullptr, 0, kWriteMs);
    const ssize_t n = ::write(reclaim, cgroup::kReclaimAll, sizeof cgroup::kReclaimAll - 1);
    if (n < 0 && errno != EAGAIN) break;
  }
}

}  // namespace

bool Reclaims::Wanted() const {
  // An unknown number is no reason: emptying costs each delete its time.
  const auto dying = cgroups_.Dying();
  return dying && *dying > kMost;
}

bool Reclaims::Start(const std::string& group, const std::string& id) {
  const auto reclaim = cgroups_.OpenReclaim(group);
  if (!reclaim) return false;
  const cgroup::ChargeFiles charges = cgroups_.OpenCharges(group);
  const auto pid = StartWorker({.name = "atoll-reclaim", .nice = 5},
                               {reclaim->get(), charges.all.get(), charges.of_kernel.get(),
                                charges.limit.get(), charges.settle.get(), charges.counts.get()},
                               [&] { Empty(reclaim->get(), charges); });
  if (pid) runs_[*pid] = id;
  return pid.has_value();
}

std::optional<std::string> Reclaims::OnChildExit(pid_t pid) {
  const auto run = runs_.extract(pid);
  if (!run) return std::nullopt;
  return run.mapped();
}

}  // namespace atl::spawner
