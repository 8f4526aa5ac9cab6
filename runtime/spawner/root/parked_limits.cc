#include "runtime/spawner/root/parked_limits.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/mounts.h"
#include "runtime/spawner/kernel/vfork_clone.h"

namespace atl::spawner {
namespace {

constexpr const char* kOnline = "/sys/devices/system/cpu/online";

// Opens a path of the sandbox's own mounts. A build puts a tmpfs at each path that is changed here;
// no other file system is touched.
Result<UniqueFd> OpenTmpfs(const char* path) {
  ATOLL_ASSIGN(UniqueFd file, sys::Open(path, O_PATH | O_NOFOLLOW));
  struct statfs system;
  if (::fstatfs(file.get(), &system) != 0) return FailSys(std::string("statfs ") + path);
  if (system.f_type != TMPFS_MAGIC) {
    return Fail(Code::kInternal, std::string(path) + " of the sandbox is not the spawner's");
  }
  return file;
}

Status ResizeShm(uint64_t bytes) {
  ATOLL_ASSIGN(const UniqueFd shm, OpenTmpfs("/dev/shm"));
  const UniqueFd context(::fspick(shm.get(), "", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH));
  if (!context) return FailSys("fspick /dev/shm");
  const std::string size = std::to_string(bytes);
  if (::fsconfig(context.get(), FSCONFIG_SET_STRING, "size", size.c_str(), 0) != 0 ||
      ::fsconfig(context.get(), FSCONFIG_CMD_RECONFIGURE, nullptr, nullptr, 0) != 0) {
    return FailSys("fsconfig /dev/shm size=" + size);
  }
  return {};
}

// The sandbox's mount of the file is read-only, and stays so: writes through a writable copy that
// nobody else sees. `descriptors`: /proc/self/fd of the host, because an O_PATH descriptor is
// opened for writing by its name there.
Status ReplaceOnline(int descriptors, const std::string& text) {
  const auto there = OpenTmpfs(kOnline);
  // A host without the file: the build has covered nothing.
  if (!there && there.error().error_number() == ENOENT) return {};
  if (!there) return Fail(there.error());
  ATOLL_ASSIGN(const UniqueFd copy, CloneMount(there->get(), "", false));
  mount_attr writable{};
  writable.attr_clr = MOUNT_ATTR_RDONLY;
  if (::mount_setattr(copy.get(), "", AT_EMPTY_PATH, &writable, sizeof writable) != 0) {
    return FailSys(std::string("mount_setattr ") + kOnline);
  }
  ATOLL_ASSIGN(const UniqueFd file, sys::OpenAt(descriptors, std::to_string(copy.get()), O_WRONLY));
  return Overwrite(file.get(), text);
}

struct Change {
  const FirstProcess* first;
  const cgroup::Limits* now;
  const cgroup::Limits* next;
  Status status = Fail(Code::kInternal, "the process that changes the limits died");
};

Status Apply(const Change& change) {
  const cgroup::Limits &now = *change.now, &next = *change.next;
  if (now.nofile != next.nofile) ATOLL_TRY(LimitOpenFiles(*change.first, next.nofile));
  const std::string before = OnlineText(now.cpu_millis);
  std::string online = OnlineText(next.cpu_millis);
  const bool sees_others = before != online;
  if (now.shm_bytes == next.shm_bytes && !sees_others) return {};
  UniqueFd descriptors;
  if (sees_others) {
    if (online.empty()) {
      ATOLL_ASSIGN(online, sys::ReadFileAt(AT_FDCWD, kOnline, 4096));
    }
    ATOLL_ASSIGN(descriptors, sys::Open("/proc/self/fd", O_PATH | O_DIRECTORY));
  }
  if (::setns(change.first->pidfd, CLONE_NEWNS) != 0) return FailSys("setns");
  if (now.shm_bytes != next.shm_bytes) ATOLL_TRY(ResizeShm(next.shm_bytes));
  if (sees_others) ATOLL_TRY(ReplaceOnline(descriptors.get(), online));
  return {};
}

void RunChange(void* argument) {
  auto* const change = static_cast<Change*>(argument);
  ::alarm(kVforkSeconds);
  change->status = Apply(*change);
  ::_exit(0);
}

}  // namespace

Status LimitParked(const FirstProcess& first, const cgroup::Limits& now,
                   const cgroup::Limits& next) {
  if (now.nofile != 0 && now.nofile != next.nofile) {
    return Fail(Code::kFailedPrecondition, "the sandbox has an open-file limit of its own");
  }
  if (now.nofile == next.nofile && now.shm_bytes == next.shm_bytes &&
      OnlineText(now.cpu_millis) == OnlineText(next.cpu_millis)) {
    return {};
  }
  Change change{&first, &now, &next};
  const auto child = Vfork(0, -1, RunChange, &change);
  return child ? change.status : Status(Fail(child.error()));
}

}  // namespace atl::spawner
