// Project quotas of XFS, and of ext4 with its features "project" and "quota", mounted with
// prjquota: every inode may carry a project id, and a limit on an id holds for all inodes that
// carry it, whoever owns them. A directory that hands its id down makes that a limit on a tree.
//
// Needs quotactl_fd(2), Linux 5.14. Setting anything needs CAP_SYS_ADMIN, and the initial user
// namespace. Thread rule: stateless.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"

namespace atl::quota {

// 0: none.
struct Limit {
  uint64_t bytes = 0;  // kept in whole KiB, rounded up
  uint64_t inodes = 0;
};

struct Usage {
  uint64_t bytes = 0;
  uint64_t inodes = 0;
};

// Whether the file system of `fd` (O_PATH will do, for anybody) refuses what goes beyond a
// project's limit.
bool Enforced(int fd);

// Returns a clause of a message: how the operator of a store can get project quotas. It
// names `atolld storage init` only if this kernel's XFS can enforce what that command sets up.
std::string Remedy();

// From here on, `directory` and all that is created beneath it belongs to the project. What is in
// it already does not change.
Status SetProject(int directory, uint32_t project);
Result<uint32_t> ProjectOf(int directory);

// `fd`: anything on the file system.
Status SetLimit(int fd, uint32_t project, const Limit& limit);
Result<Usage> ReadUsage(int fd, uint32_t project);

}  // namespace atl::quota
