// The cgroups of one daemon: a base group in each hierarchy, and beneath it one group per sandbox:
//
//   <unified>/atoll0/s7/          limits (v2); frozen and killed as a whole; root of its cgroup
//                                 namespace
//     execd/                      process 1 alone, so that commands cannot starve it
//     run/                        owned by the sandbox's root; execd makes a leaf per command in it
//       x1/{execd,run}/           an isolated session: the same structure
//     intercept/                  the interceptor, if the sandbox has a credential vault: outside
//     of
//                                 its namespaces, and within its limit of processor time
//   <v1 controller>/atoll0/s7/    limits (hybrid hosts)
//     run/                        memory and pids: the limit of commands, below execd's reserve
//       x1/{,run}/                a session with a limit of its own
//     intercept/                  memory: the limit of the interceptor
//   <v1 cpuacct, cpuset>/atoll0/  shared by all sandboxes; exists only so that runtimes see it
//
// execd's reserve is added to the requested limit: the whole group may use limit + reserve, run/
// only the limit.
//
// Paths are relative to directory descriptors that are opened once. Group names come from the
// spawner, never from a client.
//
// Thread rule: no shared state. Used by the spawner, and by the daemon to read usage.
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
// Memory limit of an interceptor. A sandbox that has one may use as much more, so that neither
// takes the other's.
inline constexpr uint64_t kInterceptMemory = 128 << 20;
// Period of the CPU limit, the kernel's default.
inline constexpr uint32_t kPeriodMicros = 100000;

// A value for memory.reclaim larger than any group. memory.force_empty ignores its value.
inline constexpr const char kReclaimAll[] = "1T";

// The part of a group's memory that no file backs, and where it is. Includes tmpfs, which only swap
// backs.
struct Paging {
  uint64_t resident_bytes = 0;
  // the part of it that also has a slot in swap: fetched back and not changed since
  uint64_t both_bytes = 0;
  uint64_t swapped_bytes = 0;  // only in swap
};
// Open files of one group: two of OpenReclaim, because two writers to the same open file would wait
// for each other, and those that ReadPaging reads.
struct PagingFiles {
  std::array<UniqueFd, 2> reclaim;
  UniqueFd stat;
  UniqueFd swap;  // v2 only
};
// Reads the paging state. `swap`: -1 on hybrid hosts. Fails if the group is gone, and if the kernel
// does not tell: nobody may take that for memory that has been given back.
Result<Paging> ReadPaging(int stat, int swap);

// Open files of one group without processes. They tell whether pages of caches are charged to it.
struct ChargeFiles {
  // Hybrid hosts: the total charge, the part of kernel memory, and the limit.
  UniqueFd all;
  UniqueFd of_kernel;
  UniqueFd limit;
  // v2 hosts, where each CPU counts ahead. `settle` is a file that sums up these counts when it is
  // read, and `counts` one that shows them. Works up to Linux 6.15. Later kernels sum up each
  // controller separately, and memory only when the counts are large.
  UniqueFd settle;
  UniqueFd counts;
};
// Returns true if no page of a program or cache is charged to the group. May also return false
// although there is none: both numbers are counted ahead on each CPU until a reclaim settles them.
bool OnlyKernelMemory(int all, int of_kernel);
// Sets the limit of a group without processes to its kernel memory. This settles the per-CPU counts
// and evicts clean pages from the caches. It stops as soon as nothing is freed, while emptying a
// group tries sixteen times (0.4 ms instead of 3.4 ms on Linux 6.18 with nothing to free).
void LimitToKernelMemory(int of_kernel, int limit);
// Like OnlyKernelMemory, for a v2 group. Exact.
bool NothingInCaches(int settle, int counts);

// Returns the directory of the v2 hierarchy in which daemons make their groups: its root, or the
// group of a systemd unit with delegation (`delegated`, a path in the hierarchy). That unit must
// hold no process, because v2 forbids processes beside child groups with limits. With the spawner's
// own unit, systemd could not restart the spawner while sandboxes live in it. Hybrid hosts always
// use the root. kFailedPrecondition: not delegated.
Result<std::string> FindBase(const Host& host, const std::string& delegated);

// A v1 hierarchy as shown to a sandbox: `name` in its /sys/fs/cgroup, and `path`, the host's
// directory that becomes its root.
struct View {
  std::string name;
  std::string path;
};

class Tree {
 public:
  // Creates (or finds) the group `name` in `base` (see FindBase) and in every v1 hierarchy, and
  // enables the controllers. Root only. `io_device`: the block device, "major:minor", for io
  // limits; empty: none.
  static Result<Tree> Create(const Host& host, const std::string& base, const std::string& name,
                             std::string io_device);

  // Removes the group `name`. kFailedPrecondition (EBUSY): a sandbox has its group in it; nothing
  // has changed. A missing group is not an error.
  static Status Remove(const Host& host, const std::string& base, const std::string& name);

  const Host& host() const { return host_; }
  // Path of the daemon's group in the v2 hierarchy.
  const std::string& path() const { return path_; }

  // All descriptors that a copy of this object in a forked process uses. Borrowed.
  std::vector<int> Descriptors() const;

  // Creates the directories in every hierarchy, without controllers and leaves, so that a process
  // may still enter.
  Status CreateGroup(const std::string& group) const;
  // Creates the leaves, enables the controllers, and gives run/ to `owner`. The group must hold no
  // process.
  Status DelegateGroup(const std::string& group, uid_t owner) const;
  // Creates a group within run/ of another group: in the v2 hierarchy, and in each v1 hierarchy for
  // which `limits` has a limit. DelegateGroup and SetLimits accept it afterwards. In all other v1
  // hierarchies its processes stay in the sandbox's group (OpenTasks). EEXIST is kAlreadyExists.
  Status CreateNested(const std::string& group, const Limits& limits) const;
  // v2 only: writes the memory limit that applies to a nested group, its own or its sandbox's,
  // whichever is lower, to its run/, where runtimes look for it. SetLimits of the sandbox updates
  // it.
  Status ShowLimits(const std::string& group) const;
  // Creates (or finds) intercept/ of a sandbox's group, with its limit. Its memory is never
  // swapped, because it holds secrets.
  Status CreateIntercept(const std::string& group) const;
  // Kills the processes of intercept/, if there is one.
  Status KillIntercept(const std::string& group) const;
  // Removes a nested group. Kills nothing. A missing group is not an error.
  Status RemoveNested(const std::string& group) const;
  // Removes a group, whose processes must all be gone. A missing group is not an error. EBUSY is
  // kFailedPrecondition.
  Status RemoveGroup(const std::string& group) const;
  // Returns the groups of sandboxes in the v2 hierarchy.
  Result<std::vector<std::string>> Groups() const;

  // Opens a directory of the v2 hierarchy, for CLONE_INTO_CGROUP and for execd. `leaf` may be "".
  Result<UniqueFd> OpenDir(const std::string& group, const std::string& leaf) const;
  // Hybrid only: opens the "tasks" files to which process 1 must write "0", and those for its
  // commands. For a sandbox or a nested group.
  Result<std::vector<UniqueFd>> OpenTasks(const std::string& group) const;
  Result<std::vector<UniqueFd>> OpenRunTasks(const std::string& group) const;
  // Hybrid only: those for a process of intercept/.
  Result<std::vector<UniqueFd>> OpenInterceptTasks(const std::string& group) const;
  // Hybrid only: moves the calling thread, and what it starts, into the groups that all sandboxes
  // share. Does not wait for a grace period.
  Status EnterShared() const;
  // Hybrid only: the hierarchies that runtimes need to see their limits. The JVM needs memory, cpu,
  // cpuacct and cpuset, and otherwise assumes that there are no limits.
  std::vector<View> Views(const std::string& group) const;
  // Hybrid only: opens, read-only, the files from which execd reads what v2 would show in run/, in
  // the order of wire::ExecdAccount. The last one is an eventfd that the kernel signals when a
  // process of run/ is about to be killed for memory; the registration lasts as long as the eventfd
  // is open.
  Result<std::vector<UniqueFd>> OpenAccounts(const std::string& group) const;

  // Writes the limits that differ between `now` and `next`. If the kernel refuses a value, the
  // error names file and value.
  Status SetLimits(const std::string& group, const Limits& now, const Limits& next) const;
  // Requests a freeze or thaw. Processes in the kernel stop a little later (see Frozen).
  Status Freeze(const std::string& group, bool frozen) const;
  // Returns true if a freeze was requested.
  Result<bool> FreezeAsked(const std::string& group) const;
  // Returns true once every process of the group is frozen.
  Result<bool> Frozen(const std::string& group) const;
  // Returns true if the process is in the group, or below it, in each hierarchy that limits it.
  // Also true for an exiting process. Only somebody on the host can move a process out.
  Result<bool> Holds(const std::string& group, pid_t pid) const;
  Status Kill(const std::string& group) const;
  // Blocks until the group has no process. kDeadlineExceeded: not within `timeout_ms`.
  Status AwaitEmpty(const std::string& group, int timeout_ms) const;
  // Returns the processor time that the group has used.
  Result<uint64_t> ReadCpuMicros(const std::string& group) const;
  // Returns the number of removed groups that still use kernel memory (a quarter of a MiB each on
  // two CPUs), because pages or inodes in the host's caches are charged to them. Approximate on
  // hybrid hosts, where it covers the whole host, because v1 hierarchies do not tell.
  Result<uint64_t> Dying() const;
  // Opens the file that reclaims the group's memory (memory.reclaim, Linux 5.19; memory.force_empty
  // on hybrid hosts). Writing kReclaimAll evicts everything of the group from the caches. This
  // takes from milliseconds to as long as a disk needs for dirty data. A signal ends it early.
  Result<UniqueFd> OpenReclaim(const std::string& group) const;
  // Opens no file on kernels whose numbers are not exact enough.
  ChargeFiles OpenCharges(const std::string& group) const;
  // Lets the group's present memory go to swap, whatever its limits say; on hybrid hosts without a
  // bound. The setting outlives the caller, until RestoreSwap.
  Status AllowSwap(const std::string& group) const;
  // Undoes AllowSwap. Does nothing if it was not called.
  Status RestoreSwap(const std::string& group) const;
  // ENOENT: the kernel does not count swap.
  Result<PagingFiles> OpenPaging(const std::string& group) const;

 private:
  Tree() = default;
  Status SetLimitsV2(const std::string& group, const Limits& now, const Limits& next) const;
  Status SetLimitsV1(const std::string& group, const Limits& now, const Limits& next) const;
  Status LimitLeaves(const std::string& run, const std::string& memory) const;
  // Returns the memory that a group may use beyond its run/.
  uint64_t ReserveOf(const std::string& group) const;
  // Sets the memory limit of a group to that of its run/, and its reserve.
  Status FitReserveV2(const std::string& group) const;
  Status FitReserveV1(const std::string& group) const;
  // Reads a memory.max; "max" becomes the largest number.
  Result<uint64_t> ReadLimit(const std::string& path) const;
  Status WriteV1(const std::string& controller, const std::string& path,
                 const std::string& value) const;

  Host host_;
  std::string path_;
  std::string name_;  // name of the base group in every hierarchy
  std::string io_device_;
  UniqueFd unified_;                    // directory of the base group
  std::map<std::string, UniqueFd> v1_;  // controller → directory of the base group
};

// Returns the CPU time of a group of the v2 hierarchy and everything below it. `directory`: its
// path on the host. Needs no privilege.
Result<uint64_t> CpuMicrosOf(const std::string& directory);

// Returns true if a process is in a group of the v2 hierarchy or below it; false for a missing
// group. Needs no privilege.
Result<bool> HasProcesses(const std::string& directory);

// Returns "major:minor" of the whole disk beneath a path's file system, in the form of io.max.
// Empty if there is none (tmpfs, btrfs, overlay).
std::string DiskOf(const std::string& path);

}  // namespace atl::cgroup
