#include "runtime/base/project_quota.h"

#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace atl::quota {
namespace {

constexpr uint64_t kBlock = 1024;  // unit of dqb_bhardlimit, QIF_DQBLKSIZE

long Control(int fd, unsigned command, uint32_t project, void* argument) {
  return ::syscall(SYS_quotactl_fd, fd, QCMD(command, PRJQUOTA), project, argument);
}

}  // namespace

bool Enforced(int fd) {
  // The only query that both file systems answer without a privilege. Q_GETINFO would tell that
  // usage is counted, but not whether limits are enforced (XFS: pqnoenforce).
  fs_quota_statv state{};
  state.qs_version = FS_QSTATV_VERSION1;
  return Control(fd, Q_XGETQSTATV, 0, &state) == 0 && (state.qs_flags & FS_QUOTA_PDQ_ENFD) != 0;
}

std::string Remedy() {
  if (Control(-1, Q_XGETQSTATV, 0, nullptr) != 0 && errno == ENOSYS) {
    return "this kernel has no quotas (CONFIG_QUOTACTL), so no store can have them";
  }
  // XFS shows this file if it was built with quotas. If XFS is not loaded, nothing can be told.
  if (::access("/proc/fs/xfs", F_OK) == 0 && ::access("/proc/fs/xfs/xqmstat", F_OK) != 0) {
    return "this kernel's XFS has no quotas (CONFIG_XFS_QUOTA), so 'atolld storage init' cannot "
           "help; the operator can mount an ext4 with the feature 'project' and the option "
           "'prjquota' as the store";
  }
  return "the operator can run 'atolld storage init', which makes a store with project quotas";
}

Status SetProject(int directory, uint32_t project) {
  fsxattr attributes{};
  if (::ioctl(directory, FS_IOC_FSGETXATTR, &attributes) != 0) return FailSys("FS_IOC_FSGETXATTR");
  attributes.fsx_projid = project;
  attributes.fsx_xflags |= FS_XFLAG_PROJINHERIT;
  if (::ioctl(directory, FS_IOC_FSSETXATTR, &attributes) != 0) {
    return FailSys("FS_IOC_FSSETXATTR project " + std::to_string(project));
  }
  return {};
}

Result<uint32_t> ProjectOf(int directory) {
  fsxattr attributes{};
  if (::ioctl(directory, FS_IOC_FSGETXATTR, &attributes) != 0) return FailSys("FS_IOC_FSGETXATTR");
  return attributes.fsx_projid;
}

Status SetLimit(int fd, uint32_t project, const Limit& limit) {
  if_dqblk block{};
  block.dqb_bhardlimit = limit.bytes / kBlock + (limit.bytes % kBlock != 0 ? 1 : 0);
  block.dqb_ihardlimit = limit.inodes;
  // Also resets soft limits, because one that another program has set on this id would be enforced
  // after its grace time.
  block.dqb_valid = QIF_LIMITS;
  // XFS accepts the generic call too, with the same numbers.
  if (Control(fd, Q_SETQUOTA, project, &block) != 0) {
    return FailSys("quotactl Q_SETQUOTA project " + std::to_string(project));
  }
  return {};
}

Result<Usage> ReadUsage(int fd, uint32_t project) {
  if_dqblk block{};
  if (Control(fd, Q_GETQUOTA, project, &block) != 0) {
    // XFS has no record of an id that was never charged.
    if (errno == ENOENT) return Usage{};
    return FailSys("quotactl Q_GETQUOTA project " + std::to_string(project));
  }
  return Usage{block.dqb_curspace, block.dqb_curinodes};
}

}  // namespace atl::quota
