#include "runtime/sandbox/state/host_budget.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cgroup/keyed_number.h"
#include "runtime/base/meminfo.h"
#include "runtime/base/sys.h"
#include "runtime/base/unique_fd.h"

namespace atl::sandbox {
namespace {

constexpr uint64_t kMiB = 1 << 20;
// Room for the host's own work: a twentieth of the host, but no more than this.
constexpr uint64_t kMostKeptFree = 256 * kMiB;
constexpr uint64_t kMostPidsKeptFree = 4096;

// Returns the first bytes of a file in /proc, which have the wanted values. Allocates no page,
// because every create reads these files.
std::string_view ReadHead(int file, char (&text)[512]) {
  const ssize_t size = TEMP_FAILURE_RETRY(::pread(file, text, sizeof text, 0));
  return {text, size > 0 ? static_cast<size_t>(size) : 0};
}

// Returns the number of tasks from "0.20 0.18 0.12 1/80 11206" (proc(5), loadavg); nothing if it is
// missing.
std::optional<uint64_t> TasksOf(std::string_view loadavg) {
  const size_t slash = loadavg.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  return cgroup::LeadingNumber(loadavg.substr(slash + 1));
}

Error Unreadable(const std::string& file) {
  return Error(Code::kInternal, file + " does not tell what this host has");
}

std::string Mib(uint64_t bytes) {
  return std::to_string(bytes / kMiB) + " MiB";
}

Error Exhausted(const std::string& message) {
  return Error(Code::kResourceExhausted, message, ENOMEM);
}

// The limits of everything that runs for a sandbox: its own, and those of its bucket servers, which
// run outside it.
struct Ceiling {
  uint64_t memory_bytes;
  uint64_t pids;
};
Ceiling CeilingOf(const Spec& spec) {
  const auto buckets = static_cast<uint64_t>(std::count_if(
      spec.volumes.begin(), spec.volumes.end(),
      [](const wire::Volume& volume) { return volume.kind == wire::Volume::Kind::kObjects; }));
  const wire::TierOverhead wall = wire::OverheadOf(TierOf(spec));
  return {spec.limits.memory_bytes + wall.memory_bytes + buckets * wire::kBucketMemory,
          spec.limits.pids * wall.pids_factor + wall.pids + buckets * wire::kBucketPids};
}

Owned OwnedFor(const Sandbox& sandbox) {
  const cgroup::Limits& limits = sandbox.spec.limits;
  return {.sandboxes = 1,
          .cpu_millis = limits.cpu_millis,
          .memory_bytes = limits.memory_bytes,
          .disk_bytes = limits.disk_bytes,
          .gpus = sandbox.devices.size()};
}

Status CheckReservation(const HostBudget& budget, const Reservation& held,
                        const Reservation& asked) {
  const uint64_t memory =
      budget.memory_total - std::min(budget.memory_reserve, budget.memory_total);
  if (memory != 0 && asked.memory_bytes > memory) {
    return Fail(Code::kInvalidArgument, "resourceRequests.memory of " + Mib(asked.memory_bytes) +
                                            " is more than this host can keep for anybody (" +
                                            Mib(memory) + ")");
  }
  if (budget.cpu_millis != 0 && asked.cpu_millis > budget.cpu_millis) {
    return Fail(Code::kInvalidArgument,
                "resourceRequests.cpu of " + std::to_string(asked.cpu_millis) +
                    "m is more than this host has (" + std::to_string(budget.cpu_millis) + "m)");
  }
  if (memory != 0 && asked.memory_bytes != 0 && held.memory_bytes + asked.memory_bytes > memory) {
    return Fail(Exhausted("the memory reserved by all sandboxes would be " +
                          Mib(held.memory_bytes + asked.memory_bytes) + ", this host can keep " +
                          Mib(memory) + "; delete some, or ask for less in resourceRequests"));
  }
  if (budget.cpu_millis != 0 && asked.cpu_millis != 0 &&
      held.cpu_millis + asked.cpu_millis > budget.cpu_millis) {
    return Fail(Exhausted("the processor time reserved by all sandboxes would be " +
                          std::to_string(held.cpu_millis + asked.cpu_millis) + "m, this host has " +
                          std::to_string(budget.cpu_millis) +
                          "m; delete some, or ask for less in resourceRequests"));
  }
  return {};
}

}  // namespace

void KeepFor(const Spec& member, uint32_t count, HostBudget* budget) {
  const Ceiling each = CeilingOf(member);
  const auto take = [count](uint64_t of, uint64_t* from) {
    // 0 would be no limit at all.
    if (*from != 0) *from -= std::min(of * count, *from - 1);
  };
  take(each.memory_bytes, &budget->memory_budget);
  take(each.pids, &budget->pids_budget);
}

Result<HostBudget> BudgetOfHost(double overcommit) {
  constexpr const char* kPidMax = "/proc/sys/kernel/pid_max";
  ATOLL_ASSIGN(UniqueFd meminfo, sys::Open("/proc/meminfo", O_RDONLY));
  ATOLL_ASSIGN(UniqueFd loadavg, sys::Open("/proc/loadavg", O_RDONLY));
  ATOLL_ASSIGN(const std::string numbers, sys::ReadFileAt(AT_FDCWD, kPidMax, 64));
  char text[512];
  const auto total = MeminfoBytes(ReadHead(meminfo.get(), text), "MemTotal:");
  const auto most_pids = cgroup::LeadingNumber(numbers);
  // 0 would be no limit at all.
  if (!total || *total == 0) return Fail(Unreadable("/proc/meminfo"));
  if (!most_pids || *most_pids == 0) return Fail(Unreadable(kPidMax));
  HostBudget budget;
  budget.memory_total = *total;
  const uint64_t pid_max = *most_pids;
  budget.cpu_millis = 1000 * static_cast<uint64_t>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 1L));
  const auto times = [overcommit](uint64_t of) {
    return static_cast<uint64_t>(static_cast<double>(of) * overcommit);
  };
  budget.memory_budget = times(budget.memory_total);
  budget.pids_budget = times(pid_max);
  budget.memory_reserve = std::min(kMostKeptFree, budget.memory_total / 20);
  budget.pids_reserve = std::min(kMostPidsKeptFree, pid_max / 20);
  // std::function requires copyable captures.
  budget.free = [pid_max, memory = std::make_shared<UniqueFd>(std::move(meminfo)),
                 load =
                     std::make_shared<UniqueFd>(std::move(loadavg))]() -> Result<HostBudget::Free> {
    char head[512];
    const auto available = MeminfoBytes(ReadHead(memory->get(), head), "MemAvailable:");
    if (!available) return Fail(Unreadable("/proc/meminfo"));
    const auto tasks = TasksOf(ReadHead(load->get(), head));
    if (!tasks) return Fail(Unreadable("/proc/loadavg"));
    return HostBudget::Free{.memory_bytes = *available,
                            .pids = pid_max - std::min(pid_max, *tasks)};
  };
  return budget;
}

void Held::Add(const Spec& spec) {
  ++sandboxes;
  const Ceiling ceiling = CeilingOf(spec);
  memory_bytes += ceiling.memory_bytes;
  pids += ceiling.pids;
  reserved.memory_bytes += spec.reserved.memory_bytes;
  reserved.cpu_millis += spec.reserved.cpu_millis;
}

void Held::Add(const Held& others) {
  sandboxes += others.sandboxes;
  memory_bytes += others.memory_bytes;
  pids += others.pids;
  reserved.memory_bytes += others.reserved.memory_bytes;
  reserved.cpu_millis += others.reserved.cpu_millis;
}

void Held::Remove(const Spec& spec) {
  --sandboxes;
  const Ceiling ceiling = CeilingOf(spec);
  memory_bytes -= ceiling.memory_bytes;
  pids -= ceiling.pids;
  reserved.memory_bytes -= spec.reserved.memory_bytes;
  reserved.cpu_millis -= spec.reserved.cpu_millis;
}

Status CheckBudget(const HostBudget& budget, const Held& held, const Spec& spec) {
  const cgroup::Limits& asked = spec.limits;
  ATOLL_TRY(CheckReservation(budget, held.reserved, spec.reserved));
  if (budget.memory_total != 0 && asked.memory_bytes > budget.memory_total) {
    return Fail(Code::kInvalidArgument, "resourceLimits.memory of " + Mib(asked.memory_bytes) +
                                            " is more than this host has (" +
                                            Mib(budget.memory_total) + ")");
  }
  if (budget.sandboxes != 0 && held.sandboxes >= budget.sandboxes) {
    return Fail(Exhausted("there are " + std::to_string(held.sandboxes) +
                          " sandboxes, as many as limits.max_sandboxes allows; delete some"));
  }
  const Ceiling ceiling = CeilingOf(spec);
  if (budget.memory_budget != 0 &&
      held.memory_bytes + ceiling.memory_bytes > budget.memory_budget) {
    return Fail(Exhausted("the memory limits of all sandboxes and their buckets would be " +
                          Mib(held.memory_bytes + ceiling.memory_bytes) + ", allowed are " +
                          Mib(budget.memory_budget) +
                          " (runtime.overcommit); delete some, or ask for less"));
  }
  if (budget.pids_budget != 0 && held.pids + ceiling.pids > budget.pids_budget) {
    return Fail(Exhausted("the pids limits of all sandboxes and their buckets would be " +
                          std::to_string(held.pids + ceiling.pids) + ", allowed are " +
                          std::to_string(budget.pids_budget) +
                          " (kernel.pid_max and runtime.overcommit); delete some"));
  }
  HostBudget::Free free;
  if (budget.free) {
    ATOLL_ASSIGN(free, budget.free());
  }
  if (free.memory_bytes < budget.memory_reserve) {
    return Fail(Exhausted("this host has only " + Mib(free.memory_bytes) + " of memory left, and " +
                          Mib(budget.memory_reserve) + " are kept free; delete some sandboxes"));
  }
  if (free.pids < budget.pids_reserve) {
    return Fail(Exhausted("this host has only " + std::to_string(free.pids) +
                          " process numbers left, and " + std::to_string(budget.pids_reserve) +
                          " are kept free; delete some sandboxes, or raise kernel.pid_max"));
  }
  return {};
}

Status CheckKept(const std::string& tenant, const std::string& wish, const Kept& kept,
                 uint64_t more, uint32_t most) {
  if (FairPlaces::Allows(most, tenant, kept.all, kept.own, more)) return {};
  if (!tenant.empty()) {
    return Fail(Code::kInvalidArgument,
                wish + ", more sandboxes would be kept than this host keeps for tenant " + tenant +
                    "; ask for less");
  }
  return Fail(Code::kInvalidArgument, wish + ", all pools and templates could keep " +
                                          std::to_string(kept.all + more) + " sandboxes; at most " +
                                          std::to_string(most) +
                                          " are kept here (runtime.parked_sandboxes)");
}

void Room::Hold(const Sandbox& sandbox) {
  Count(sandbox, State::kGone, sandbox.state);
}

void Room::Drop(const Sandbox& sandbox) {
  Count(sandbox, sandbox.state, State::kGone);
}

void Room::OnTransition(const Sandbox& sandbox, State before) {
  Count(sandbox, before, sandbox.state);
}

void Room::Count(const Sandbox& sandbox, State before, State after) {
  if (!sandbox.stocked && Holds(before) != Holds(after)) {
    Holds(after) ? held_.Add(sandbox.spec) : held_.Remove(sandbox.spec);
  }
  // A member of a template runs its tenant's program before its claim.
  const std::string& tenant = sandbox.stocked ? sandbox.spec.network.tenant : sandbox.tenant;
  if (tenant.empty() || CountsForQuota(before) == CountsForQuota(after)) return;
  Owned& owned = tenants_[tenant];
  const Owned one = OwnedFor(sandbox);
  if (CountsForQuota(after)) {
    owned += one;
    return;
  }
  owned -= one;
  if (owned.sandboxes == 0) tenants_.erase(tenant);
}

void Room::Clear() {
  held_ = {};
  tenants_.clear();
}

Status Room::Check(const Sandbox& asked, const SharedTerms& terms, size_t count) const {
  if (terms != nullptr) {
    ATOLL_TRY(CheckSandboxQuota(terms, OwnedBy(asked.tenant), Times(OwnedFor(asked), count)));
  }
  if (count <= 1) return CheckHost(asked.spec);
  Held held = held_;
  for (size_t i = 1; i < count; ++i) held.Add(asked.spec);
  return CheckBudget(budget_, held, asked.spec);
}

Owned Room::OwnedBy(const std::string& tenant) const {
  const auto found = tenants_.find(tenant);
  Owned owned = found == tenants_.end() ? Owned() : found->second;
  for (const CountOwned& count : counts_) count(tenant, &owned);
  return owned;
}

Status Room::CheckStock(const Spec& member, bool another) const {
  Held all = held_;
  for (const Holder& holder : holders_) all.Add(holder.held());
  if (!another) all.Remove(member);
  return CheckBudget(budget_, all, member);
}

Kept Room::KeptFor(const std::string& tenant) const {
  Kept kept;
  for (const Holder& holder : holders_) holder.kept(tenant, &kept);
  return kept;
}

void Room::GiveWay() {
  for (const Holder& holder : holders_) holder.give_way();
}

}  // namespace atl::sandbox
