#include "runtime/spawner/root_steps.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/sys.h"
#include "runtime/spawner/mounts.h"
#include "runtime/spawner/slot_mounts.h"

namespace atl::spawner {
namespace {

constexpr uint64_t kNoSuidDevExec = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;

// Opens a directory of the new root to mount on. The image decides what stands there: anything but
// a real directory reached without links is refused (CVE-2026-41579: /dev a symbolic link to a host
// path).
Result<UniqueFd> OpenTarget(int root, const char* path) {
  auto target = sys::OpenBeneath(root, path, O_PATH | O_DIRECTORY | O_NOFOLLOW);
  if (!target) {
    return Fail(Error(
        Code::kInvalidArgument,
        std::string("the image's /") + path + " is not a directory: " + target.error().message(),
        target.error().error_number()));
  }
  return target;
}

// A regular file at etc/NAME to mount on. The skeleton layer provides it, unless the image has put
// something else there (a symbolic link to /run is common): that is then replaced in the upper.
Result<UniqueFd> OpenEtcTarget(int etc, const std::string& name) {
  auto target = sys::OpenBeneath(etc, name, O_PATH | O_NOFOLLOW);
  struct stat info {};
  if (target && ::fstat(target->get(), &info) == 0 && S_ISREG(info.st_mode)) return target;
  if (target && S_ISDIR(info.st_mode)) {
    return Fail(Code::kInvalidArgument, "the image's /etc/" + name + " is a directory");
  }
  if (::unlinkat(etc, name.c_str(), 0) != 0 && errno != ENOENT) {
    return FailSys("unlink /etc/" + name);
  }
  const int file =
      ::openat(etc, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (file < 0) return FailSys("create /etc/" + name);
  ::close(file);
  return sys::OpenBeneath(etc, name, O_PATH | O_NOFOLLOW);
}

// The file system that is mounted must be the one we mean: a name inside a hostile tree is not
// proof.
Status CheckMagic(int fd, long magic, const char* what) {
  struct statfs info {};
  if (::fstatfs(fd, &info) != 0) return FailSys(std::string("fstatfs ") + what);
  if (info.f_type != magic) return Fail(Code::kInternal, std::string(what) + ": wrong file system");
  return {};
}

// Moves what the slot has ready at `name` onto the same name of the root.
Status MoveOnto(int root, const char* name) {
  ATOLL_ASSIGN(const UniqueFd target, OpenTarget(root, name));
  const std::string from = std::string("/") + name;
  if (::move_mount(AT_FDCWD, from.c_str(), target.get(), "", MOVE_MOUNT_T_EMPTY_PATH) != 0) {
    return FailSys("move_mount " + from);
  }
  return {};
}

}  // namespace

Status MountOverlay(ChildState& state) {
  const wire::Plan& plan = *state.input->plan;
  // Relative to the store, so that 128 layers fit into the one page that mount(2) takes; fsconfig
  // would take 256 bytes for all of them, and its lowerdir+ needs Linux 6.8. userxattr: layers were
  // unpacked without privilege. volatile: a sandbox dies with the host, so nothing of it needs to
  // be synced, and its end does not wait for the disk. The features that put meaning into xattrs of
  // a lower are off.
  std::string options = "userxattr,volatile,xino=off,index=off,lowerdir=";
  for (wire::LayerId layer : plan.layers) {
    options.append("layers/").append(std::to_string(layer)).append(":");
  }
  options.append("skeleton");
  const std::string upper = "uppers/s" + std::to_string(plan.slot);
  options.append(",upperdir=")
      .append(upper)
      .append("/upper,workdir=")
      .append(upper)
      .append("/work");
  if (::chdir("/store") != 0) return FailSys("chdir /store");
  if (::mount("overlay", "/root", "overlay", MS_NOSUID | MS_NODEV, options.c_str()) != 0) {
    return FailSys("mount overlay " + options);
  }
  ATOLL_ASSIGN(state.root, sys::Open("/root", O_PATH | O_DIRECTORY));
  return CheckMagic(state.root.get(), OVERLAYFS_SUPER_MAGIC, "root");
}

Status MountProc(ChildState& state) {
  ATOLL_ASSIGN(const UniqueFd target, OpenTarget(state.root.get(), "proc"));
  ATOLL_ASSIGN(state.proc, NewMount("proc", {}, kNoSuidDevExec));
  ATOLL_TRY(Attach(state.proc.get(), target.get(), "/proc"));
  return CheckMagic(state.proc.get(), PROC_SUPER_MAGIC, "/proc");
}

Status MoveSys(ChildState& state) {
  return MoveOnto(state.root.get(), "sys");
}

Status MoveDev(ChildState& state) {
  ATOLL_TRY(MoveOnto(state.root.get(), "dev"));
  const uint64_t shm_bytes = state.input->plan->shm_bytes;
  if (shm_bytes == kDefaultShmBytes) return {};
  ATOLL_ASSIGN(const UniqueFd target,
               sys::OpenInRoot(state.root.get(), "dev/shm", O_PATH | O_DIRECTORY));
  ATOLL_ASSIGN(
      const UniqueFd shm,
      NewMount("tmpfs", {{"mode", "1777"}, {"size", std::to_string(shm_bytes)}}, kNoSuidDevExec));
  return Attach(shm.get(), target.get(), "/dev/shm");
}

Status MountEtc(ChildState& state) {
  const wire::Plan& plan = *state.input->plan;
  if (::sethostname(plan.hostname.data(), plan.hostname.size()) != 0) {
    return FailSys("sethostname " + plan.hostname);
  }
  ATOLL_ASSIGN(const UniqueFd etc,
               sys::OpenBeneath(state.root.get(), "etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  // On the slot's own small tmpfs: a bind of a file costs 5 µs, copying /etc up into the upper 100.
  ATOLL_ASSIGN(const UniqueFd files, sys::Open("/etc", O_PATH | O_DIRECTORY));
  const std::pair<const char*, const std::string> contents[] = {
      {"hostname", plan.hostname + "\n"}, {"hosts", plan.hosts}, {"resolv.conf", plan.resolv_conf}};
  for (const auto& [name, content] : contents) {
    ATOLL_ASSIGN(const UniqueFd file,
                 sys::OpenAt(files.get(), name, O_WRONLY | O_CREAT | O_EXCL, 0644));
    ATOLL_TRY(sys::WriteAll(file.get(), content));
    ATOLL_ASSIGN(const UniqueFd target, OpenEtcTarget(etc.get(), name));
    ATOLL_ASSIGN(const UniqueFd bind, CloneMount(files.get(), name, false));
    ATOLL_TRY(Attach(bind.get(), target.get(), name));
  }
  return {};
}

Status PivotRoot(ChildState& state) {
  if (state.input->plan->readonly_root) {
    // Only now: the steps before may have had to replace a link in /etc.
    ATOLL_TRY(SetMountAttributes(state.root.get(), MOUNT_ATTR_RDONLY, -1, false));
  }
  if (::fchdir(state.root.get()) != 0) return FailSys("fchdir root");
  // As in slot_mounts.cc. What goes is the slot's own little tree.
  if (::syscall(SYS_pivot_root, ".", ".") != 0) return FailSys("pivot_root");
  if (::umount2(".", MNT_DETACH) != 0) return FailSys("umount old root");
  if (::chdir("/") != 0) return FailSys("chdir /");
  return {};
}

}  // namespace atl::spawner
