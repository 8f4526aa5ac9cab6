#include "runtime/guest/shares.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/mounts.h"

namespace atl::guest {
namespace {

using spawner::Attach;
using spawner::CloneMount;
using spawner::kNoSuidDev;
using spawner::NewMount;
using spawner::SetMountAttributes;

// Mounts the file systems that the shares are in, each once and for the time of this object.
class Devices {
 public:
  Devices() = default;
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;
  ~Devices() {
    for (const std::string& tag : attached_) ::umount2(("/" + tag).c_str(), MNT_DETACH);
  }

  // Returns a detached mount of the share's directory.
  Result<UniqueFd> Mount(const wire::vm::Share& share) {
    if (share.directory.empty()) return Whole(share.tag);
    // A mount must be attached before a part of it can be cloned.
    const std::string staging = "/" + share.tag;
    if (std::find(attached_.begin(), attached_.end(), share.tag) == attached_.end()) {
      ATOLL_ASSIGN(const UniqueFd whole, Whole(share.tag));
      if (::mkdir(staging.c_str(), 0700) != 0 && errno != EEXIST)
        return FailSys("mkdir " + staging);
      ATOLL_ASSIGN(const UniqueFd target, sys::Open(staging, O_PATH | O_DIRECTORY));
      ATOLL_TRY(Attach(whole.get(), target.get(), staging.c_str()));
      attached_.push_back(share.tag);
    }
    return CloneMount(AT_FDCWD, (staging + "/" + share.directory).c_str(), true);
  }

 private:
  static Result<UniqueFd> Whole(const std::string& tag) {
    auto whole = NewMount("virtiofs", {{"source", tag}}, kNoSuidDev);
    if (!whole) return Fail(Error(whole.error()).Wrap("share " + tag));
    return whole;
  }

  std::vector<std::string> attached_;
};

// Attaches the mount at a new directory of the initramfs.
Status AttachAtNew(const char* path, const UniqueFd& mount) {
  if (::mkdir(path, 0700) != 0) return FailSys(std::string("mkdir ") + path);
  ATOLL_ASSIGN(const UniqueFd target, sys::Open(path, O_PATH | O_DIRECTORY));
  return Attach(mount.get(), target.get(), path);
}

Result<bool> IsDirectory(const UniqueFd& mount) {
  struct stat facts {};
  if (::fstat(mount.get(), &facts) != 0) return FailSys("fstat of a share");
  return S_ISDIR(facts.st_mode);
}

// Opens a directory of the root, and makes it and its missing parents.
Result<UniqueFd> MakeTarget(int root, std::string_view path) {
  std::string made;
  ATOLL_ASSIGN(UniqueFd at, sys::OpenInRoot(root, ".", O_PATH | O_DIRECTORY));
  for (size_t begin = 1; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string name(path.substr(begin, end - begin));
    made.append("/").append(name);
    if (::mkdirat(at.get(), name.c_str(), 0755) != 0 && errno != EEXIST) {
      return FailSys("mkdir " + made);
    }
    ATOLL_ASSIGN(at, sys::OpenInRoot(root, made, O_PATH | O_DIRECTORY));
    begin = end + 1;
  }
  return at;
}

}  // namespace

Result<Shares> Shares::Mount(const wire::vm::Go& go) {
  Shares shares;
  Devices devices;
  wire::vm::Share sessions = go.root;
  sessions.directory = go.sessions;
  for (const auto& [path, share] : {std::pair{kRootPath, &go.root}, {kSessionsPath, &sessions}}) {
    ATOLL_ASSIGN(const UniqueFd mount, devices.Mount(*share));
    ATOLL_TRY(AttachAtNew(path, mount));
  }
  ATOLL_ASSIGN(UniqueFd root, sys::Open(kRootPath, O_RDONLY | O_DIRECTORY));
  for (const wire::vm::Share& share : go.shares) {
    ATOLL_ASSIGN(const UniqueFd mount, devices.Mount(share));
    ATOLL_ASSIGN(const bool directory, IsDirectory(mount));
    // The host has made the file for a share of one file.
    ATOLL_ASSIGN(const UniqueFd target, directory
                                            ? MakeTarget(root.get(), share.target)
                                            : sys::OpenInRoot(root.get(), share.target, O_PATH));
    ATOLL_TRY(Attach(mount.get(), target.get(), share.target.c_str()));
    if (share.read_only) {
      ATOLL_TRY(SetMountAttributes(mount.get(), MOUNT_ATTR_RDONLY, -1, true));
      continue;
    }
    ATOLL_ASSIGN(UniqueFd there,
                 sys::OpenInRoot(root.get(), share.target, directory ? O_DIRECTORY : O_NONBLOCK));
    shares.mounted_.push_back(std::move(there));
  }
  // Last, because targets of shares are made in the root.
  if (go.root.read_only) ATOLL_TRY(SetMountAttributes(root.get(), MOUNT_ATTR_RDONLY, -1, false));
  shares.mounted_.push_back(std::move(root));
  return shares;
}

int Shares::Sync() const {
  int first = 0;
  for (const UniqueFd& there : mounted_) {
    if (::syncfs(there.get()) != 0 && first == 0) first = errno;
  }
  return first;
}

}  // namespace atl::guest
