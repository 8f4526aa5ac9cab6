// The cgroups of one daemon: a base group per hierarchy, and beneath it one group per sandbox:
//
//   <unified>/atoll0/s7/          limits (v2); frozen and killed as a whole; root of its cgroup
//   namespace
//     execd/                      process 1 alone: what commands use up cannot starve it
//     run/                        owned by the sandbox's root; execd makes one leaf per command in
//     it
//       x1/{execd,run}/           an isolated session: the same in small
//   <v1 controller>/atoll0/s7/    limits (hybrid hosts)
//     run/                        memory and pids: the commands' own limit, below execd's reserve
//       x1/{,run}/                of a session, where it has a limit of its own
//   <v1 cpuacct, cpuset>/atoll0/  all sandboxes together; only for what they see
//
// execd's reserve stands on top of what the user asked for: the whole group may use limit +
// reserve, run/ only the limit.
//
// Paths are relative to directory descriptors opened once; group names come from the spawner, never
// from a client. Thread rule: none needed, no shared state; used by the spawner, and for usage by
// the daemon.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cgroup/host.h"
#include "cgroup/limits.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::cgroup {

inline constexpr uint64_t kReserveMemory = 8 << 20;
inline constexpr uint32_t kReservePids = 16;
// Of the processor's limit: the kernel's default.
inline constexpr uint32_t kPeriodMicros = 100000;

// An amount for memory.reclaim that nobody has; memory.force_empty does not read it.
inline constexpr const char kReclaimAll[] = "1T";

struct Usage {
  uint64_t memory_bytes = 0;
  uint64_t cpu_micros = 0;
  uint64_t pids = 0;
  uint64_t oom_kills = 0;
};

// What of a group's memory has no file behind it (tmpfs included, which has only swap), and what of
// that is in swap.
struct Paging {
  uint64_t resident_bytes = 0;
  uint64_t both_bytes = 0;     // of that, what has its place in swap still: fetched, not changed
  uint64_t swapped_bytes = 0;  // and not in memory
};
// Open files of one group: that of OpenReclaim, for two to write to side by side (who writes to the
// same open file waits for the other), and those that ReadPaging reads.
struct PagingFiles {
  std::array<UniqueFd, 2> reclaim;
  UniqueFd stat;
  UniqueFd swap;  // v2 only
};
// `swap`: -1 on hybrid hosts. Of a group that has gone, nothing.
Paging ReadPaging(int stat, int swap);

// Open files of one group without processes, which tell whether pages in caches are charged to it.
struct ChargeFiles {
  // Hybrid: what it is charged for, how much of that is kernel memory, and how much it may be
  // charged for.
  UniqueFd all;
  UniqueFd of_kernel;
  UniqueFd limit;
  // v2, where each processor counts ahead: a file that has these counts added up when it is read,
  // and one that tells them. Up to Linux 6.15; later ones add up those of each controller by
  // themselves, of memory only when there are many.
  UniqueFd settle;
  UniqueFd counts;
};
// True: no page of a program or a cache is charged to the group. False also where one might be:
// both are counted ahead for each processor, until a reclaim settles them.
bool OnlyKernelMemory(int all, int of_kernel);
// Lets a group without processes have its kernel memory and no more: settles what is counted ahead
// and takes what is clean out of the caches, and tries no longer than it gets anything, where
// emptying a group tries sixteen times (0.4 ms in place of 3.4 on 6.18, with nothing to take).
void LimitToKernelMemory(int of_kernel, int limit);
// OnlyKernelMemory of a v2 group. Exact.
bool NothingInCaches(int settle, int counts);

// The directory of the v2 hierarchy that daemons have their groups in: its root, or the group of a
// unit that systemd has delegated to us and stays out of (`delegated`, a path in the hierarchy).
// That unit must hold no process: v2 forbids processes beside child groups with limits, so the
// spawner's own unit could not be started again while sandboxes live in it. Hybrid hosts: always
// the root. kFailedPrecondition if it is not delegated.
Result<std::string> FindBase(const Host& host, const std::string& delegated);

// A v1 hierarchy as a sandbox sees it: `name` in its /sys/fs/cgroup, and `path`, the host's
// directory that is its root.
struct View {
  std::string name;
  std::string path;
};

// Events that the kernel has counted for a sandbox's group since the group was made.
struct GroupEvents {
  uint64_t oom_kills = 0;
  uint64_t pids_hits = 0;  // forks that the limit of processes refused

  GroupEvents& operator+=(const GroupEvents& other) {
    oom_kills += other.oom_kills;
    pids_hits += other.pids_hits;
    return *this;
  }
};
// `path`: the directory of the daemon's group in the v2 hierarchy. Of a group that has gone,
// nothing. Needs no privilege.
GroupEvents EventsOf(const Host& host, const std::string& path, const std::string& group);

class Tree {
 public:
  // Creates (or finds) the group `name` in `base` (see FindBase) and in every v1 hierarchy, and
  // turns the controllers on. Root only. `io_device`: the block device, "major:minor", that io
  // limits apply to; empty: none.
  static Result<Tree> Create(const Host& host, const std::string& base, const std::string& name,
                             std::string io_device);

  // Takes the group `name` away again. kFailedPrecondition (EBUSY), and nothing has changed, while
  // a sandbox has its group in it; an absent one is not an error.
  static Status Remove(const Host& host, const std::string& base, const std::string& name);

  const Host& host() const { return host_; }
  // Of the daemon's group in the v2 hierarchy.
  const std::string& path() const { return path_; }

  // All that a copy of it in a forked process works with; borrowed.
  std::vector<int> Descriptors() const;

  // mkdir in every hierarchy; no controllers, no leaves yet, so that a process may still enter.
  Status CreateGroup(const std::string& group) const;
  // Leaves, controllers, and ownership of run/ for `owner`. The group must hold no process.
  Status DelegateGroup(const std::string& group, uid_t owner) const;
  // A group within run/ of another: of the v2 hierarchy, and of those of v1 in which it is to have
  // one of `limits`, which DelegateGroup and SetLimits then take. Where it has none of its own it
  // is in its sandbox's (OpenTasks). EEXIST is kAlreadyExists.
  Status CreateNested(const std::string& group, const Limits& limits) const;
  // v2 only: lets those who look in run/ of a nested group for the limit of their memory find it:
  // its own or its sandbox's, whichever is less. SetLimits of the sandbox does it again.
  Status ShowLimits(const std::string& group) const;
  // Kills nothing, and an absent one is not an error.
  Status RemoveNested(const std::string& group) const;
  // Kills nothing: every process must be gone. An absent group is not an error; EBUSY comes back as
  // kFailedPrecondition.
  Status RemoveGroup(const std::string& group) const;
  // Groups of sandboxes that exist in the v2 hierarchy.
  Result<std::vector<std::string>> Groups() const;

  // Directory in the v2 hierarchy, for CLONE_INTO_CGROUP and for execd. `leaf` may be "".
  Result<UniqueFd> OpenDir(const std::string& group, const std::string& leaf) const;
  // Hybrid only: the "tasks" files that process 1 must write "0" to, and those for its commands; of
  // a sandbox or of a nested group.
  Result<std::vector<UniqueFd>> OpenTasks(const std::string& group) const;
  Result<std::vector<UniqueFd>> OpenRunTasks(const std::string& group) const;
  // Hybrid only: brings the calling thread, and what it starts, into the groups that all sandboxes
  // are in. Waits for no grace period.
  Status EnterShared() const;
  // Hybrid only: what runtimes look for to learn their limits (the JVM needs memory, cpu, cpuacct
  // and cpuset, or it takes itself to be without).
  std::vector<View> Views(const std::string& group) const;
  // Hybrid only: the files that execd reads what v2 would show it in run/, in the order of
  // wire::ExecdAccount; read-only. The last is an eventfd that the kernel writes when a process of
  // run/ is about to be killed for memory, as long as anybody has it open.
  Result<std::vector<UniqueFd>> OpenAccounts(const std::string& group) const;

  // Writes what differs between `now` and `next`. A refused value names file and value.
  Status SetLimits(const std::string& group, const Limits& now, const Limits& next) const;
  // Asks for it: a process that is on its way through the kernel stops a little later (Frozen).
  Status Freeze(const std::string& group, bool frozen) const;
  // Whether it has been asked for.
  Result<bool> FreezeAsked(const std::string& group) const;
  // True once every process of the group stands still.
  Result<bool> Frozen(const std::string& group) const;
  // Whether a process is in the group, or below it, in each hierarchy where the group limits it; of
  // one that is exiting it is true. Only somebody on the host can take it out.
  Result<bool> Holds(const std::string& group, pid_t pid) const;
  Status Kill(const std::string& group) const;
  // Blocks until no process is left in the group; kDeadlineExceeded after `timeout_ms`.
  Status AwaitEmpty(const std::string& group, int timeout_ms) const;
  Result<Usage> ReadUsage(const std::string& group) const;
  // How many groups have been removed and still take kernel memory (a quarter of a MiB on two
  // processors), because pages or inodes in the host's caches are charged to them. Hybrid: about,
  // and of the whole host, whose v1 hierarchies do not tell.
  uint64_t Dying() const;
  // Writing kReclaimAll to it evicts everything of the group that is in caches, and takes from
  // milliseconds to as long as a disk needs for what is not yet written (memory.reclaim, Linux
  // 5.19; memory.force_empty on hybrid hosts). A signal ends it early.
  Result<UniqueFd> OpenReclaim(const std::string& group) const;
  // None where the kernel tells not exactly enough.
  ChargeFiles OpenCharges(const std::string& group) const;
  // Lets memory of the group go to swap, as much as it has now, whatever its limits say; hybrid:
  // without a bound. Else none of it does, unless its limits say so. Outlives whoever calls it,
  // until RestoreSwap.
  Status AllowSwap(const std::string& group) const;
  // Nothing to do is not an error.
  Status RestoreSwap(const std::string& group) const;
  // ENOENT: the kernel counts no swap.
  Result<PagingFiles> OpenPaging(const std::string& group) const;

 private:
  Tree() = default;
  Status SetLimitsV2(const std::string& group, const Limits& now, const Limits& next) const;
  Status SetLimitsV1(const std::string& group, const Limits& now, const Limits& next) const;
  Status LimitLeaves(const std::string& run, const std::string& memory) const;
  // The value of a memory.max; of "max", the greatest there is.
  Result<uint64_t> ReadLimit(const std::string& path) const;
  Status WriteV1(const std::string& controller, const std::string& path,
                 const std::string& value) const;

  Host host_;
  std::string path_;
  std::string name_;  // of the base group, in every hierarchy
  std::string io_device_;
  UniqueFd unified_;                    // the base group's directory
  std::map<std::string, UniqueFd> v1_;  // controller → the base group's directory
};

// Processor time of a group of the v2 hierarchy with all below it. Anybody may ask. `directory`:
// its path on the host.
Result<uint64_t> CpuMicrosOf(const std::string& directory);

// Whether any process is in a group of the v2 hierarchy, or below it; of one that is not there,
// none is. Anybody may ask.
Result<bool> HasProcesses(const std::string& directory);

// "major:minor" of the whole disk beneath a path's file system, as io.max wants it; empty if it has
// none (tmpfs, btrfs, overlay).
std::string DiskOf(const std::string& path);

}  // namespace atl::cgroup
