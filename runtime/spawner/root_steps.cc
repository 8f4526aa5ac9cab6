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

Status MountFresh(int root, const char* path, const char* type, const MountOptions& options,
                  uint64_t attributes, UniqueFd* mounted) {
  ATOLL_ASSIGN(const UniqueFd target, OpenTarget(root, path));
  ATOLL_ASSIGN(UniqueFd mount, NewMount(type, options, attributes));
  ATOLL_TRY(Attach(mount.get(), target.get(), path));
  if (mounted) *mounted = std::move(mount);
  return {};
}

}  // namespace

Status AttachStore(ChildState& state) {
  // Attached before overlayfs sees it: detached id-mapped lowers give EINVAL on Linux 6.1.
  const std::string staging = state.input->host->staging + "/root";
  ATOLL_ASSIGN(const UniqueFd target, sys::Open(staging, O_PATH | O_DIRECTORY));
  ATOLL_TRY(Attach(state.input->slot->store.get(), target.get(), "staging"));
  if (::fchdir(state.input->slot->store.get()) != 0) return FailSys("fchdir store");
  return {};
}

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
  // Over the staging directory, and with it over the store: once the root has moved, neither is
  // reachable.
  const std::string staging = state.input->host->staging + "/root";
  if (::mount("overlay", staging.c_str(), "overlay", MS_NOSUID | MS_NODEV, options.c_str()) != 0) {
    return FailSys("mount overlay " + options);
  }
  ATOLL_ASSIGN(state.root, sys::Open(staging, O_PATH | O_DIRECTORY));
  return CheckMagic(state.root.get(), OVERLAYFS_SUPER_MAGIC, "root");
}

Status MountProc(ChildState& state) {
  ATOLL_TRY(MountFresh(state.root.get(), "proc", "proc", {}, kNoSuidDevExec, &state.proc));
  return CheckMagic(state.proc.get(), PROC_SUPER_MAGIC, "/proc");
}

Status MountSys(ChildState& state) {
  ATOLL_TRY(MountFresh(state.root.get(), "sys", "sysfs", {}, kNoSuidDevExec | MOUNT_ATTR_RDONLY,
                       &state.sys));
  ATOLL_TRY(CheckMagic(state.sys.get(), SYSFS_MAGIC, "/sys"));
  // Language runtimes size themselves by what they find here. Its root is the sandbox's own group.
  return MountFresh(state.sys.get(), "fs/cgroup", "cgroup2", {}, kNoSuidDevExec | MOUNT_ATTR_RDONLY,
                    nullptr);
}

Status MountDev(ChildState& state) {
  const wire::Plan& plan = *state.input->plan;
  const uid_t base = state.input->host->IdBase(plan.slot);
  ATOLL_ASSIGN(const UniqueFd target, OpenTarget(state.root.get(), "dev"));
  const int dev = state.input->slot->devices.get();
  ATOLL_TRY(Attach(dev, target.get(), "/dev"));
  // Group 5 is tty in Debian, Alpine and Fedora alike.
  ATOLL_TRY(MountFresh(dev, "pts", "devpts",
                       {{"newinstance", ""},
                        {"ptmxmode", "0666"},
                        {"mode", "0620"},
                        {"gid", std::to_string(base + 5)}},
                       MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, nullptr));
  ATOLL_TRY(MountFresh(dev, "shm", "tmpfs",
                       {{"mode", "1777"}, {"size", std::to_string(plan.shm_bytes)}}, kNoSuidDevExec,
                       nullptr));
  return MountFresh(dev, "mqueue", "mqueue", {}, kNoSuidDevExec, nullptr);
}

Status MountEtc(ChildState& state) {
  const wire::Plan& plan = *state.input->plan;
  if (::sethostname(plan.hostname.data(), plan.hostname.size()) != 0) {
    return FailSys("sethostname " + plan.hostname);
  }
  ATOLL_ASSIGN(const UniqueFd etc,
               sys::OpenBeneath(state.root.get(), "etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  // One small tmpfs for the three files: a bind of a file costs 5 µs, copying /etc up into the
  // upper 100.
  ATOLL_ASSIGN(
      const UniqueFd files,
      NewMount("tmpfs", {{"mode", "0755"}, {"size", "64k"}, {"nr_inodes", "8"}}, kNoSuidDevExec));
  // Attached outside the new root, gone with the old one: a detached mount can be cloned only
  // since 6.15.
  ATOLL_ASSIGN(const UniqueFd shelf,
               sys::Open(state.input->host->staging + "/etc", O_PATH | O_DIRECTORY));
  ATOLL_TRY(Attach(files.get(), shelf.get(), "staging"));
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
  // pivot_root(".", "."): the old root ends up on top of the new one and is taken off by the next
  // call, so no directory for it is needed inside (pivot_root(2), notes).
  if (::syscall(SYS_pivot_root, ".", ".") != 0) return FailSys("pivot_root");
  if (::umount2(".", MNT_DETACH) != 0) return FailSys("umount old root");
  if (::chdir("/") != 0) return FailSys("chdir /");
  return {};
}

}  // namespace atl::spawner
