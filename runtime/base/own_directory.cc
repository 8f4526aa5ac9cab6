#include "runtime/base/own_directory.h"

#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/sys.h"

namespace atl {
namespace {

// Returns the user to whom this thread's new files belong.
uid_t FileOwner() {
  errno = 0;
  // An id that does not exist changes nothing, and the call returns the current one.
  const int current = ::setfsuid(static_cast<uid_t>(-1));
  // gVisor has no such ids.
  return errno == ENOSYS ? ::geteuid() : static_cast<uid_t>(current);
}

}  // namespace

Result<UniqueFd> MakeOwnDirectory(int parent, const std::string& name, mode_t mode) {
  // mkdir returns no descriptor. Until the directory is open, anybody who may write to the parent
  // may rename another one into its place. The new one is recognised by its owner and its mode 0:
  // others can neither create such a directory with our uid nor change one of ours into it.
  if (::mkdirat(parent, name.c_str(), 0) != 0) return FailSys("mkdir " + name);
  return OpenMadeDirectory(parent, name, mode);
}

Result<UniqueFd> OpenMadeDirectory(int parent, const std::string& name, mode_t mode) {
  ATOLL_ASSIGN(const UniqueFd made,
               sys::OpenBeneath(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW));
  struct stat info;
  if (::fstat(made.get(), &info) != 0) return FailSys("fstat " + name);
  // The parent may pass its set-group-id bit on.
  if (info.st_uid != FileOwner() || (info.st_mode & 07777 & ~static_cast<mode_t>(S_ISGID)) != 0) {
    return Fail(Code::kFailedPrecondition, "mkdir " + name + ": another directory took its place");
  }
  // Uses the name, because fchmod of an O_PATH descriptor needs Linux 6.6.
  const std::string link = sys::FdPath(made.get());
  if (::chmod(link.c_str(), mode) != 0) return FailSys("chmod " + name);
  return sys::OpenAt(made.get(), ".", O_RDONLY | O_DIRECTORY);
}

}  // namespace atl
