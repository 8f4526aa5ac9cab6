// The project of the store's quota that a slot's upper or a named volume belongs to, and its
// limits. See runtime/base/project_quota.h for what a project is.
//
// The next upper of a slot has another id than its last one, whose files may still lie in the
// trash: the next sandbox in the slot starts at zero, and not with the rest of somebody else's
// million files. Each slot has sixteen ids, near each other, because XFS keeps a block for each
// thirty ids that were ever used.
//
// Nothing inside a sandbox changes a file's project. The kernel lets nobody outside the initial
// user namespace do it, and the filter of system calls (seccomp.cc) closes the way around that.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/base/project_quota.h"
#include "runtime/base/result.h"
#include "runtime/spawner/rules/config.h"

namespace atl::spawner {

// Far above the ids that administrators and container runtimes count up from 1.
inline constexpr uint32_t kProjectBase = 0x70000000;
inline constexpr uint32_t kProjectsPerSlot = 16;
inline constexpr uint32_t kProjectEnd =
    kProjectBase + kMaxInstances * (kMaxSlot + 1) * kProjectsPerSlot;

// Project ids of volumes follow those of the slots, for each instance more than anybody will make.
// A volume's own directory is charged to it, so an id with nothing charged is no volume's, in
// whatever instance's range it lies.
inline constexpr uint32_t kVolumeProjects = 1 << 16;
inline constexpr uint32_t kVolumeProjectEnd = kProjectEnd + kMaxInstances * kVolumeProjects;

constexpr uint32_t FirstProject(uint32_t instance, uint32_t slot) {
  return kProjectBase + (instance * (kMaxSlot + 1) + slot) * kProjectsPerSlot;
}

// Returns how many inodes go with so many bytes: one for each 16 KiB, the ratio of mke2fs(8), so
// that a sandbox cannot use up the host's inodes with empty files. The floor leaves a small sandbox
// room for the directories that overlayfs copies up.
constexpr uint64_t InodesFor(uint64_t disk_bytes) {
  return disk_bytes == 0 ? 0 : std::max<uint64_t>(disk_bytes >> 14, 1024);
}

// Returns what is charged to the project of an upper's or a volume's directory. kNotFound: the
// directory has no project of ours.
Result<quota::Usage> ChargedTo(int directory);

// Gives an empty directory a project of the slot's to which nothing is charged, with the limit; 0
// is no limit. kUnavailable: all of them still have files in the trash.
Status AssignProject(int directory, uint32_t instance, uint32_t slot, uint64_t disk_bytes);
// The same for the empty directory of a volume. kResourceExhausted: there are too many volumes.
Status AssignVolumeProject(int directory, uint32_t instance, uint64_t disk_bytes);
// Sets a new limit for the project of `directory`. What exceeds it already stays.
Status LimitProject(int directory, uint64_t disk_bytes);
// Takes the limit off the project of a directory that is about to be deleted, if the project is one
// of ours. Call it while something of the directory is left, because afterwards the project could
// be the next owner's.
void ForgetProject(int directory);

}  // namespace atl::spawner
