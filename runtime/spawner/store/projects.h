// Which project of the store's quota a slot's upper or a named volume belongs to, and what it may
// hold. See runtime/base/project_quota.h for what a project is.
//
// A slot's next upper has another id than its last one, whose files may lie in the trash for as
// long as the janitor needs: whoever gets the slot next starts at nothing, and not with the rest of
// somebody else's million files. Sixteen ids for each slot, all near each other, because XFS keeps
// a block for each thirty ids that were ever used.
//
// Nothing inside a sandbox changes a file's project: the kernel lets nobody outside the initial
// user namespace do it, and the filter of system calls (seccomp.cc) closes the way around that.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/base/project_quota.h"
#include "runtime/base/result.h"
#include "runtime/spawner/rules/config.h"

namespace atl::spawner {

// Far above what administrators and container runtimes count up from 1.
inline constexpr uint32_t kProjectBase = 0x70000000;
inline constexpr uint32_t kProjectsPerSlot = 16;
inline constexpr uint32_t kProjectEnd =
    kProjectBase + kMaxInstances * (kMaxSlot + 1) * kProjectsPerSlot;

// Volumes have theirs behind those of the slots, for each instance as many as nobody will make. A
// volume's own directory is charged to it, so an id with nothing charged is no volume's, in
// whatever instance's range it lies.
inline constexpr uint32_t kVolumeProjects = 1 << 16;
inline constexpr uint32_t kVolumeProjectEnd = kProjectEnd + kMaxInstances * kVolumeProjects;

constexpr uint32_t FirstProject(uint32_t instance, uint32_t slot) {
  return kProjectBase + (instance * (kMaxSlot + 1) + slot) * kProjectsPerSlot;
}

// How many inodes go with so many bytes: one for each 16 KiB, as mke2fs(8) reckons with, so that a
// sandbox cannot use up those of the host with empty files. The floor leaves a small one room for
// the directories that overlayfs copies up.
constexpr uint64_t InodesFor(uint64_t disk_bytes) {
  return disk_bytes == 0 ? 0 : std::max<uint64_t>(disk_bytes >> 14, 1024);
}

// Returns what is charged to the project of an upper's or a volume's directory. kNotFound: the
// directory has no project of ours.
Result<quota::Usage> ChargedTo(int directory);

// For an empty directory: gives it a project of the slot's to which nothing is charged, and that
// the limit; 0 is no limit. kUnavailable: all of them still have files in the trash.
Status AssignProject(int directory, uint32_t instance, uint32_t slot, uint64_t disk_bytes);
// The same for the empty directory of a volume. kResourceExhausted: there are too many volumes.
Status AssignVolumeProject(int directory, uint32_t instance, uint64_t disk_bytes);
// A new limit for the project of `directory`. What is over it already stays.
Status LimitProject(int directory, uint64_t disk_bytes);
// For what is about to be deleted: takes the limit off its project, if that is one of ours. To be
// called while something of it is left, or it could be the next owner's.
void ForgetProject(int directory);

}  // namespace atl::spawner
