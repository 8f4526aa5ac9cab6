#include "runtime/spawner/sessions/session_mounts.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/devices.h"
#include "runtime/spawner/kernel/mounts.h"
#include "runtime/spawner/rules/config.h"
#include "runtime/spawner/slot/slot_mounts.h"
#include "runtime/spawner/slot/slot_proc.h"

namespace atl::spawner {
namespace {

using Kind = wire::SessionMount::Kind;

// Overlays are put together here. In every sandbox this is our own mount, on which no image has an
// influence.
constexpr const char* kStaging = "/dev/shm";
// The memory of a scratch overlay is charged to the sandbox anyway.
constexpr const char* kScratchBytes = "256m";
constexpr long kMqueueMagic = 0x19800202;

// A mount that was asked for, opened before anything was changed.
struct Source {
  const wire::SessionMount* wanted = nullptr;
  UniqueFd place;  // O_PATH; for an overlay
  UniqueFd tree;   // a detached clone; for the others
  struct stat info {};
};

Status CheckOrdinary(int fd, const std::string& path) {
  struct statfs info {};
  if (::fstatfs(fd, &info) != 0) return FailSys("fstatfs " + path);
  for (const long magic : {long{PROC_SUPER_MAGIC}, long{SYSFS_MAGIC}, long{CGROUP_SUPER_MAGIC},
                           long{CGROUP2_SUPER_MAGIC}, long{DEVPTS_SUPER_MAGIC}, kMqueueMagic}) {
    if (info.f_type == magic) {
      return Fail(Code::kInvalidArgument, path + " belongs to the kernel and cannot be mounted");
    }
  }
  return {};
}

// Opens a path without a link anywhere in it. A process that could write to a directory on the way
// could otherwise have the whole sandbox mounted into a session, or the session's own mounts
// covered.
Result<UniqueFd> OpenPlain(int root, const std::string& path, int flags) {
  open_how how{};
  how.flags = static_cast<uint64_t>(flags) | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  UniqueFd fd(static_cast<int>(::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how)));
  if (fd) return fd;
  if (errno != ELOOP) return FailSys("open " + path);
  return Fail(Code::kInvalidArgument, path + " leads over a link; say where it leads to");
}

Result<Source> OpenSource(int root, const wire::SessionMount& wanted) {
  Source source;
  source.wanted = &wanted;
  ATOLL_ASSIGN(source.place, OpenPlain(root, wanted.source, O_PATH));
  ATOLL_TRY(CheckOrdinary(source.place.get(), wanted.source));
  if (::fstat(source.place.get(), &source.info) != 0) return FailSys("fstat " + wanted.source);
  const bool directory = S_ISDIR(source.info.st_mode);
  const bool overlay = wanted.kind >= Kind::kOverlay;
  if (!directory && (overlay || !S_ISREG(source.info.st_mode))) {
    return Fail(Code::kInvalidArgument, wanted.source + " is not a directory");
  }
  if (overlay) return source;
  // Clones with the mounts beneath, with their attributes.
  ATOLL_ASSIGN(source.tree, CloneMount(source.place.get(), "", true));
  if (wanted.kind == Kind::kReadOnly) {
    ATOLL_TRY(SetMountAttributes(source.tree.get(), MOUNT_ATTR_RDONLY, -1, true));
  }
  return source;
}

// Makes what a private /tmp or /run hides; elsewhere the root is read-only.
Result<UniqueFd> OpenTarget(int root, const wire::SessionMount& wanted, bool directory) {
  const int flags = O_PATH | (directory ? O_DIRECTORY : 0);
  auto target = OpenPlain(root, wanted.target, flags);
  if (!target && target.error().error_number() == ENOENT) {
    for (size_t at = 1; at != std::string::npos;) {
      const size_t end = wanted.target.find('/', at);
      const std::string path = wanted.target.substr(0, end);
      const std::string name = path.substr(at);
      ATOLL_ASSIGN(const UniqueFd parent,
                   OpenPlain(root, wanted.target.substr(0, at), O_PATH | O_DIRECTORY));
      if (end == std::string::npos && !directory) {
        ATOLL_TRY(sys::OpenAt(parent.get(), name,
                              O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_NONBLOCK, 0644));
      } else if (::mkdirat(parent.get(), name.c_str(), 0755) != 0 && errno != EEXIST) {
        return FailSys("mkdir " + path);
      }
      at = end == std::string::npos ? end : end + 1;
    }
    target = OpenPlain(root, wanted.target, flags);
  }
  if (target) ATOLL_TRY(CheckOrdinary(target->get(), wanted.target));
  return target;
}

Status MountOn(const char* path, const char* type, const MountOptions& options,
               uint64_t attributes) {
  ATOLL_ASSIGN(const UniqueFd target, sys::Open(path, O_PATH | O_DIRECTORY));
  ATOLL_ASSIGN(const UniqueFd mount, NewMount(type, options, attributes));
  return Attach(mount.get(), target.get(), path);
}

// Mounts onto a directory that an image may lack, or have a link in the place of.
Status MountIfThere(int root, const char* path, const MountOptions& options) {
  const auto target = sys::OpenInRoot(root, path, O_PATH | O_DIRECTORY);
  if (!target) return {};
  ATOLL_TRY(CheckOrdinary(target->get(), path));
  ATOLL_ASSIGN(const UniqueFd mount, NewMount("tmpfs", options, kNoSuidDev));
  return Attach(mount.get(), target->get(), path);
}

// The merged directory takes its owner and mode from the root of the upper.
Status DressUpper(int upper, const struct stat& like) {
  // An owner from outside the sandbox cannot be set here. The directory then belongs to the
  // sandbox's root.
  [[maybe_unused]] const int ignored = ::fchown(upper, like.st_uid, like.st_gid);
  if (::fchmod(upper, like.st_mode & 07777) != 0) return FailSys("fchmod upper");
  return {};
}

class Overlays {
 public:
  explicit Overlays(const SessionMounts& mounts) : mounts_(mounts) {}

  Status Begin() {
    ATOLL_TRY(MountOn(kStaging, "tmpfs", {{"mode", "0700"}, {"size", "256k"}}, kNoSuidDevExec));
    if (::chdir(kStaging) != 0) return FailSys("chdir staging");
    for (const char* name : {"empty", "store"}) {
      if (::mkdir(name, 0755) != 0) return FailSys(std::string("mkdir staging ") + name);
    }
    ATOLL_TRY(MountOn("empty", "tmpfs", {{"mode", "0555"}, {"size", "4k"}, {"nr_inodes", "2"}},
                      kNoSuidDevExec | MOUNT_ATTR_RDONLY));
    if (mounts_.store < 0) return {};
    ATOLL_ASSIGN(const UniqueFd target, sys::Open("store", O_PATH | O_DIRECTORY));
    return Attach(mounts_.store, target.get(), "staging store");
  }

  // Makes a detached overlay mount. The lower is looked up by its own descriptor, the rest by names
  // of ours.
  Result<UniqueFd> Make(const Source& source) {
    const std::string number = std::to_string(made_++);
    const bool scratch = source.wanted->kind == Kind::kScratch;
    const std::string lower = "l" + number;
    const std::string writes = scratch ? "t" + number : "store/" + number;
    if (::mkdir(lower.c_str(), 0700) != 0) return FailSys("mkdir staging lower");
    {
      ATOLL_ASSIGN(const UniqueFd target, sys::Open(lower, O_PATH | O_DIRECTORY));
      ATOLL_ASSIGN(const UniqueFd below, CloneMount(source.place.get(), "", false));
      ATOLL_TRY(Attach(below.get(), target.get(), "staging lower"));
    }
    if (scratch) {
      if (::mkdir(writes.c_str(), 0700) != 0) return FailSys("mkdir staging scratch");
      ATOLL_TRY(MountOn(writes.c_str(), "tmpfs", {{"mode", "0755"}, {"size", kScratchBytes}},
                        kNoSuidDev));
      for (const char* name : {"/upper", "/work"}) {
        if (::mkdir((writes + name).c_str(), 0755) != 0) return FailSys("mkdir scratch");
      }
    }
    ATOLL_ASSIGN(const UniqueFd upper, sys::Open(writes + "/upper", O_RDONLY | O_DIRECTORY));
    ATOLL_TRY(DressUpper(upper.get(), source.info));
    if (!scratch) {
      // Gives execd a read-only mount of the upper directory, to find the session's changes. The
      // directory is the root of the mount, so ".." leads nowhere.
      ATOLL_ASSIGN(UniqueFd shown, CloneMount(upper.get(), "", false));
      ATOLL_TRY(SetMountAttributes(shown.get(), MOUNT_ATTR_RDONLY | kNoSuidDevExec, -1, false));
      uppers_.push_back(std::move(shown));
    }
    // xino: as for the sandbox's root. The kernel cannot know that an overlay beneath, whose files
    // have no handles, keeps its inode numbers.
    MountOptions options = {{"volatile", ""},
                            {"xino", "on"},
                            {"index", "off"},
                            {"lowerdir", lower},
                            {"upperdir", writes + "/upper"},
                            {"workdir", writes + "/work"}};
    // A tmpfs has no user attributes before Linux 6.6. Nobody else reads what is written there.
    if (!scratch) options.insert(options.begin(), {"userxattr", ""});
    ATOLL_ASSIGN(UniqueFd overlay, NewMount("overlay", options, kNoSuidDev));
    ATOLL_TRY(CheckWritableOverlay(overlay.get()));
    return overlay;
  }

  std::vector<UniqueFd> TakeUppers() { return std::move(uppers_); }

  // The overlays hold what they need, so the staging mount can go.
  static Status End() {
    if (::chdir("/") != 0) return FailSys("chdir /");
    if (::umount2(kStaging, MNT_DETACH) != 0) return FailSys("umount staging");
    return {};
  }

 private:
  const SessionMounts& mounts_;
  std::vector<UniqueFd> uppers_;
  size_t made_ = 0;
};

Status RaiseLoopback() {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return FailSys("socket for loopback");
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", 3);
  request.ifr_flags = IFF_UP;
  if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) return FailSys("SIOCSIFFLAGS lo");
  return {};
}

// Mounts the session's /proc. Returns its sysctls, writable.
Result<UniqueFd> MountOwnProc(const SessionMounts& mounts) {
  ATOLL_TRY(MountProc());
  ATOLL_ASSIGN(UniqueFd sysctls, sys::Open("/proc/sys", O_RDONLY | O_DIRECTORY));
  if (!mounts.spec->shared_network) {
    ATOLL_TRY(SetNetworkDefaults(sysctls.get()));
    ATOLL_TRY(RaiseLoopback());
  }
  ATOLL_TRY(MaskProc((std::string(kStaging) + "/empty").c_str(), mounts.base));
  return sysctls;
}

// Covers the sandbox's /dev, where root may have left a socket or a pipe. It is as read-only as the
// rest.
Status MountOwnDevices(uid_t base) {
  ATOLL_ASSIGN(const UniqueFd target, sys::Open("/dev", O_PATH | O_DIRECTORY));
  ATOLL_ASSIGN(const UniqueFd dev, MountDeviceNodes(target.get()));
  ATOLL_TRY(SetMountAttributes(dev.get(), MOUNT_ATTR_RDONLY, -1, false));
  ATOLL_ASSIGN(const UniqueFd pts, sys::OpenBeneath(dev.get(), "pts", O_PATH | O_DIRECTORY));
  ATOLL_TRY(MountTerminals(pts.get(), base + 5, kMaxSessionTerminals));
  return MountOn("/dev/mqueue", "mqueue", {}, kNoSuidDevExec);
}

}  // namespace

Result<SessionFurniture> FurnishSession(const SessionMounts& mounts) {
  const wire::SessionSpec& spec = *mounts.spec;
  ATOLL_TRY(ActAs(mounts.base));
  ATOLL_ASSIGN(const UniqueFd root, sys::Open("/", O_PATH | O_DIRECTORY));
  // No mount from here on reaches the sandbox, nor the other way round.
  ATOLL_TRY(SetMountAttributes(root.get(), 0, -1, true, MS_PRIVATE));

  std::vector<Source> sources;
  const wire::SessionMount tmp{Kind::kWritable, "/tmp", "/tmp"};
  const bool own_tmp = std::none_of(spec.mounts.begin(), spec.mounts.end(),
                                    [](const auto& mount) { return mount.target == "/tmp"; });
  if (own_tmp && spec.shared_tmp) {
    ATOLL_ASSIGN(Source source, OpenSource(root.get(), tmp));
    sources.push_back(std::move(source));
  }
  for (const wire::SessionMount& wanted : spec.mounts) {
    ATOLL_ASSIGN(Source source, OpenSource(root.get(), wanted));
    sources.push_back(std::move(source));
  }
  struct statfs shm {};
  if (::statfs(kStaging, &shm) != 0) return FailSys("statfs /dev/shm");
  ATOLL_TRY(SetMountAttributes(root.get(), MOUNT_ATTR_RDONLY, -1, true));

  ATOLL_TRY(MountOwnDevices(mounts.base));
  Overlays overlays(mounts);
  ATOLL_TRY(overlays.Begin());
  ATOLL_ASSIGN(UniqueFd sysctls, MountOwnProc(mounts));
  ATOLL_TRY(MountOn(mounts.cgroup_v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/unified", "cgroup2", {},
                    kNoSuidDevExec | MOUNT_ATTR_RDONLY));
  ATOLL_TRY(MountIfThere(root.get(), "/run", {{"mode", "0755"}}));
  if (own_tmp && !spec.shared_tmp) {
    ATOLL_TRY(MountIfThere(root.get(), "/tmp", {{"mode", "1777"}}));
  }
  // Overlays are made in the order of the request, which numbers their uppers, and mounted from
  // shallow to deep.
  for (Source& source : sources) {
    if (!source.place || source.wanted->kind < Kind::kOverlay) continue;
    ATOLL_ASSIGN(source.tree, overlays.Make(source));
  }
  // Before any mount of the sandbox is attached here, because these are names, which such a mount
  // could lead astray.
  ATOLL_TRY(Overlays::End());
  ATOLL_TRY(MountOn(kStaging, "tmpfs",
                    {{"mode", "1777"},
                     {"size", std::to_string(static_cast<uint64_t>(shm.f_blocks) *
                                             static_cast<uint64_t>(shm.f_bsize))}},
                    kNoSuidDevExec));
  std::stable_sort(sources.begin(), sources.end(), [](const Source& a, const Source& b) {
    const auto depth = [](const Source& source) {
      return std::count(source.wanted->target.begin(), source.wanted->target.end(), '/');
    };
    return depth(a) < depth(b);
  });
  for (const Source& source : sources) {
    const auto target = OpenTarget(root.get(), *source.wanted, S_ISDIR(source.info.st_mode));
    if (!target) {
      return Fail(Code::kInvalidArgument,
                  "no mount point " + source.wanted->target + ": " + target.error().message());
    }
    ATOLL_TRY(Attach(source.tree.get(), target->get(), source.wanted->target.c_str()));
  }
  return SessionFurniture{overlays.TakeUppers(), std::move(sysctls)};
}

}  // namespace atl::spawner
