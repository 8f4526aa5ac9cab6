#include "runtime/spawner/root/root_steps.h"

#include <fcntl.h>
#include <linux/securebits.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <string>

#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/mounts.h"
#include "runtime/spawner/slot/slot_mounts.h"
#include "runtime/wire/plan.h"

namespace atl::spawner {
namespace {

// Opens a directory of the new root to mount on. The image decides what is there: refuses anything
// but a real directory reached without links (CVE-2026-41579: /dev a symbolic link to a host path).
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

// Moves the slot's mount at `name` onto the same name of the root.
Status MoveOnto(int root, const char* name) {
  ATOLL_ASSIGN(const UniqueFd target, OpenTarget(root, name));
  const std::string from = std::string("/") + name;
  if (::move_mount(AT_FDCWD, from.c_str(), target.get(), "", MOVE_MOUNT_T_EMPTY_PATH) != 0) {
    return FailSys("move_mount " + from);
  }
  return {};
}

// Shows the processors of the limit in place of the host's.
Status WriteOnline(uint64_t cpu_millis) {
  const std::string text = OnlineText(cpu_millis);
  if (text.empty()) return {};
  const auto file = sys::OpenAt(AT_FDCWD, std::string("/") + kOnlineFile, O_WRONLY);
  if (!file && file.error().error_number() == ENOENT) return {};
  if (!file) return Fail(file.error());
  return Overwrite(file->get(), text);
}

}  // namespace

std::string OnlineText(uint64_t cpu_millis) {
  // The limit, rounded up: the first processors, whichever ones a command runs on.
  const uint64_t count = (cpu_millis + 999) / 1000;
  cpu_set_t allowed;
  // EINVAL on a host with more than 1,024 processors: the sandbox sees them all there.
  if (count == 0 || ::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return "";
  if (count >= static_cast<uint64_t>(CPU_COUNT(&allowed))) return "";
  return count == 1 ? "0\n" : "0-" + std::to_string(count - 1) + "\n";
}

Status Overwrite(int file, const std::string& text) {
  ATOLL_TRY(sys::WriteAll(file, text));
  // O_TRUNC takes 40 us longer.
  if (::ftruncate(file, static_cast<off_t>(text.size())) != 0) return FailSys("ftruncate");
  return {};
}

Status LimitOpenFiles(const FirstProcess& first, uint64_t most) {
  // Acts as the owner of the sandbox's user namespace, who has every capability in it. So a spawner
  // without CAP_SYS_RESOURCE can do it too, up to execd's present limit. A change of uid would not
  // do: execd's saved uid differs from its real one, so that nobody inside can do the same.
  // Capabilities stay.
  constexpr uid_t kSame = static_cast<uid_t>(-1);
  // prlimit(2) takes a number, which may be another process's by now.
  if (Status there = sys::PidfdSignal(first.pidfd, 0); !there) return there;
  const rlimit files{most, most};
  if (::prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) != 0) return FailSys("PR_SET_SECUREBITS");
  if (::setresuid(kSame, first.id_base, kSame) != 0) {
    return FailSys("setresuid, effective " + std::to_string(first.id_base));
  }
  if (::prlimit(first.pid, RLIMIT_NOFILE, &files, nullptr) != 0) {
    return FailSys(
        "prlimit of execd, NOFILE " + std::to_string(most) +
        " (more than the spawner's own needs CAP_SYS_RESOURCE, or a higher LimitNOFILE)");
  }
  if (::setresuid(kSame, 0, kSame) != 0) return FailSys("setresuid, effective 0");
  return {};
}

Status LimitFiles(RootState& state) {
  const uint64_t most = state.plan->limits.nofile;
  if (most == 0) return {};
  return LimitOpenFiles({state.execd, state.slot->execd, state.host->IdBase(state.plan->slot)},
                        most);
}

Status WriteEtc(RootState& state) {
  const wire::Plan& plan = *state.plan;
  if (::sethostname(plan.hostname.data(), plan.hostname.size()) != 0) {
    return FailSys("sethostname " + plan.hostname);
  }
  const std::string contents[] = {plan.hostname + "\n", plan.hosts, plan.resolv_conf};
  for (size_t i = 0; i < std::size(contents); ++i) {
    ATOLL_TRY(sys::WriteFileAt(AT_FDCWD, std::string("/own/etc/") + kOwnFiles[i], contents[i]));
  }
  return WriteOnline(plan.limits.cpu_millis);
}

Status MountOverlay(RootState& state) {
  const wire::Plan& plan = *state.plan;
  // Relative to the store, so that 128 layers fit into the one page that mount(2) takes; fsconfig
  // would take 256 bytes for all of them, and its lowerdir+ needs Linux 6.8. userxattr: layers were
  // unpacked without privilege. volatile: a sandbox dies with the host, so nothing of it needs to
  // be synced, and its end does not wait for the disk. The features that put meaning into xattrs of
  // a lower are off. xino: the slot's own files lie on another file system than the layers, and
  // without it files and directories would show different devices, which du -x, tar
  // --one-file-system and df take for mounts. It sets bit 63 of the inode numbers of the few files
  // that come from there, and leaves all others as they are.
  //
  // The slot's own files are the top layer, and no mounts: whatever the image has in their place,
  // links included, is covered without being looked at, and programs that replace /etc/hosts by
  // renaming can do so.
  std::string options = "userxattr,volatile,xino=auto,index=off,lowerdir=/own:";
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
  // Checks the type, too, because a name inside a hostile tree proves nothing about the mount.
  return CheckWritableOverlay(state.root.get());
}

Status MoveMounts(RootState& state) {
  for (const char* name : {"proc", "sys", "dev"}) ATOLL_TRY(MoveOnto(state.root.get(), name));
  const uint64_t shm_bytes = state.plan->limits.shm_bytes;
  if (shm_bytes == state.slot->limits.shm_bytes) return {};
  ATOLL_ASSIGN(const UniqueFd target,
               sys::OpenInRoot(state.root.get(), "dev/shm", O_PATH | O_DIRECTORY));
  ATOLL_ASSIGN(
      const UniqueFd shm,
      NewMount("tmpfs", {{"mode", "1777"}, {"size", std::to_string(shm_bytes)}}, kNoSuidDevExec));
  return Attach(shm.get(), target.get(), "/dev/shm");
}

Status CoverRoot(RootState& state) {
  if (state.plan->readonly_root) {
    ATOLL_TRY(SetMountAttributes(state.root.get(), MOUNT_ATTR_RDONLY, -1, false));
  }
  // Not pivot_root(2): it looks at every task of the host for those that stand on the old root
  // (1 ms beside 1,000 sandboxes), and taking the old one off waits for an RCU grace period. The
  // slot's tree stays beneath, where no path and no mountinfo of the sandbox leads to: what is on
  // top of a namespace's first mount has nothing above it (path_resolution(7)).
  if (::move_mount(state.root.get(), "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return FailSys("move_mount root");
  }
  return {};
}

}  // namespace atl::spawner
