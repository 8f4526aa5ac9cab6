// Project quotas of XFS, and of ext4 with its features "project" and "quota", mounted with
// prjquota. Every inode may carry a project id. A limit on an id applies to all inodes that carry
// it, whoever owns them. A directory that passes its id on turns this into a limit on a tree.
//
// Needs quotactl_fd(2), Linux 5.14. Setting anything needs CAP_SYS_ADMIN, and the initial user
// namespace.
//
// Thread rule: stateless.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"

namespace atl::quota {

// 0: no limit.
struct Limit {
  uint64_t bytes = 0;  // rounded up to whole KiB
  uint64_t inodes = 0;
};

struct Usage {
  uint64_t bytes = 0;
  uint64_t inodes = 0;
};

// Returns true if the file system of `fd` (O_PATH is enough, no privilege is needed) enforces
// limits of projects.
bool Enforced(int fd);

// Returns a clause for messages: how the operator can get project quotas for a store. It names
// `atolld storage init` only if this kernel's XFS can enforce what that command sets up.
std::string Remedy();

// Assigns `directory` and everything created beneath it from now on to the project. Existing
// content is not changed.
Status SetProject(int directory, uint32_t project);
Result<uint32_t> ProjectOf(int directory);

// `fd`: any file on the file system.
Status SetLimit(int fd, uint32_t project, const Limit& limit);
Result<Usage> ReadUsage(int fd, uint32_t project);

}  // namespace atl::quota
