#include "runtime/spawner/store/projects.h"

#include <string>

#include "runtime/base/log.h"
#include "runtime/base/project_quota.h"

namespace atl::spawner {
namespace {

bool IsOurs(uint32_t project) {
  return project >= kProjectBase && project < kVolumeProjectEnd;
}

// Returns false if something is charged to every one of them.
Result<bool> AssignFree(int directory, uint32_t first, uint32_t count, uint64_t disk_bytes) {
  for (uint32_t project = first; project < first + count; ++project) {
    ATOLL_ASSIGN(const quota::Usage usage, quota::ReadUsage(directory, project));
    if (usage.inodes != 0 || usage.bytes != 0) continue;
    // Sets the limit first, so that there is no moment without one.
    ATOLL_TRY(quota::SetLimit(directory, project, {disk_bytes, InodesFor(disk_bytes)}));
    ATOLL_TRY(quota::SetProject(directory, project));
    return true;
  }
  return false;
}

}  // namespace

Status AssignVolumeProject(int directory, uint32_t instance, uint64_t disk_bytes) {
  ATOLL_ASSIGN(const bool assigned, AssignFree(directory, kProjectEnd + instance * kVolumeProjects,
                                               kVolumeProjects, disk_bytes));
  if (assigned) return {};
  return Fail(Code::kResourceExhausted,
              "all " + std::to_string(kVolumeProjects) + " projects for volumes are in use");
}

Status AssignProject(int directory, uint32_t instance, uint32_t slot, uint64_t disk_bytes) {
  ATOLL_ASSIGN(const bool assigned,
               AssignFree(directory, FirstProject(instance, slot), kProjectsPerSlot, disk_bytes));
  if (assigned) return {};
  return Fail(Code::kUnavailable, "slot " + std::to_string(slot) + ": the files of its last " +
                                      std::to_string(kProjectsPerSlot) +
                                      " sandboxes are still being deleted");
}

Status LimitProject(int directory, uint64_t disk_bytes) {
  ATOLL_ASSIGN(const uint32_t project, quota::ProjectOf(directory));
  if (!IsOurs(project)) {
    return Fail(Code::kInternal, "project " + std::to_string(project) + " is not of an upper");
  }
  return quota::SetLimit(directory, project, {disk_bytes, InodesFor(disk_bytes)});
}

Result<quota::Usage> ChargedTo(int directory) {
  ATOLL_ASSIGN(const uint32_t project, quota::ProjectOf(directory));
  if (!IsOurs(project)) return Fail(Code::kNotFound, "no project of ours");
  return quota::ReadUsage(directory, project);
}

void ForgetProject(int directory) {
  const auto project = quota::ProjectOf(directory);
  if (!project || !IsOurs(*project)) return;
  const Status reset = quota::SetLimit(directory, *project, {});
  if (!reset) LogLine(LogLevel::kWarning, "cannot reset a disk limit").Add(reset.error());
}

}  // namespace atl::spawner
