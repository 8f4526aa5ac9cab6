#include "runtime/spawner/root/volume_mounts.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/mounts.h"
#include "runtime/spawner/root/device_mounts.h"
#include "runtime/spawner/root/volume_fill.h"
#include "runtime/wire/plan.h"

namespace atl::spawner {
namespace {

struct Place {
  uint64_t mount = 0;
  uint64_t inode = 0;
  bool directory = false;
};

Result<Place> PlaceOf(int fd) {
  struct statx info {};
  // STATX_MNT_ID: Linux 5.8. AT_STATX_DONT_SYNC: takes what the kernel knows of a bucket, and never
  // asks its server.
  if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO | STATX_MNT_ID,
              &info) != 0) {
    return FailSys("statx");
  }
  return Place{info.stx_mnt_id, info.stx_ino, S_ISDIR(info.stx_mode)};
}

class Targets {
 public:
  static Result<Targets> In(int root) {
    ATOLL_ASSIGN(const Place place, PlaceOf(root));
    return Targets(root, place);
  }

  // Opens the target.
  Result<UniqueFd> Find(const wire::Volume& volume, bool directory) {
    auto target = Open(volume.target.substr(1), directory);
    if (!target) return Fail(Unusable(volume.target, target.error()));
    ATOLL_TRY(Check(target->get(), volume.target, directory));
    return target;
  }

  Status Mount(const wire::Volume& volume, const VolumeSource& source, uid_t owner) {
    const bool in_image = sys::OpenInRoot(root_, volume.target.substr(1), O_PATH).has_value();
    ATOLL_ASSIGN(const UniqueFd target, Find(volume, source.directory));
    ATOLL_ASSIGN(const Place there, PlaceOf(target.get()));
    // Not the content of another volume there.
    if (in_image && there.mount == place_.mount && volume.kind == wire::Volume::Kind::kNamed &&
        volume.sub_path.empty() && !volume.read_only) {
      Status filled = FillVolume(target.get(), source.mount.get(), owner);
      if (!filled) return Fail(std::move(filled).error().Wrap("volume " + volume.source));
    }
    ATOLL_TRY(Attach(source.mount.get(), target.get(), volume.target.c_str()));
    ATOLL_ASSIGN(const Place place, PlaceOf(source.mount.get()));
    mounts_.push_back(place.mount);
    return {};
  }

  // Makes a symbolic link, with its directory. Replaces a link that leads elsewhere, as one of a
  // snapshot from before an upgrade of the driver, and leaves anything else as it is.
  Status Link(const wire::DevicePath& link) {
    const std::string path = link.target.substr(1);
    const size_t slash = path.rfind('/');
    UniqueFd opened;
    if (slash != std::string::npos) {
      auto found = Open(path.substr(0, slash), true);
      if (!found) return Fail(Unusable(link.target, found.error()));
      opened = std::move(*found);
    }
    const int directory = opened ? opened.get() : root_;
    const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
    ATOLL_ASSIGN(const Place place, PlaceOf(directory));
    ATOLL_TRY(CheckMount(place, link.target));
    if (::symlinkat(link.source.c_str(), directory, name.c_str()) == 0) return {};
    if (errno != EEXIST) return FailSys("symlink " + link.target);
    char now[PATH_MAX];
    const ssize_t size = ::readlinkat(directory, name.c_str(), now, sizeof now);
    if (size < 0 || std::string_view(now, static_cast<size_t>(size)) == link.source) return {};
    if (::unlinkat(directory, name.c_str(), 0) != 0) return FailSys("unlink " + link.target);
    if (::symlinkat(link.source.c_str(), directory, name.c_str()) != 0) {
      return FailSys("symlink " + link.target);
    }
    return {};
  }

 private:
  Targets(int root, const Place& place) : root_(root), place_(place), mounts_{place.mount} {}

  // The image and the request decide what is at the target, so this is no failure of ours.
  static Error Unusable(const std::string& path, const Error& error) {
    const int number = error.error_number();
    if (number == ENOTDIR || number == ELOOP || number == EEXIST || number == ENOENT) {
      return Error(Code::kInvalidArgument,
                   path + " passes through a file, or a link that leads nowhere, in the image: " +
                       error.message());
    }
    return Error(error).Wrap(path);
  }

  // Compares mounts, not names, because the image may have a link to /proc/sys under any name.
  Status CheckMount(const Place& place, const std::string& path) const {
    if (std::find(mounts_.begin(), mounts_.end(), place.mount) != mounts_.end()) return {};
    return Fail(Code::kInvalidArgument,
                path + " leads to /proc, /sys or /dev, where no volume may be");
  }

  Status Check(int target, const std::string& path, bool directory) const {
    ATOLL_ASSIGN(const Place place, PlaceOf(target));
    ATOLL_TRY(CheckMount(place, path));
    if (place.mount == place_.mount && place.inode == place_.inode) {
      return Fail(Code::kInvalidArgument, path + " leads to the root, where no volume may be");
    }
    if (place.directory != directory) {
      return Fail(Code::kInvalidArgument, directory ? path + " is not a directory in the image"
                                                    : path + " is a directory, the volume a file");
    }
    return {};
  }

  // Opens the path with mkdir -p in the root. The last component is a file if the volume is one.
  Result<UniqueFd> Open(const std::string& path, bool directory) const {
    auto found = sys::OpenInRoot(root_, path, O_PATH);
    if (found || found.error().error_number() != ENOENT) return found;
    UniqueFd parent;
    for (size_t begin = 0; begin < path.size();) {
      const size_t end = std::min(path.find('/', begin), path.size());
      const bool file = end == path.size() && !directory;
      auto next = sys::OpenInRoot(root_, path.substr(0, end), file ? O_PATH : O_PATH | O_DIRECTORY);
      if (!next && next.error().error_number() == ENOENT) {
        const int directory_fd = parent ? parent.get() : root_;
        ATOLL_ASSIGN(const Place place, PlaceOf(directory_fd));
        ATOLL_TRY(CheckMount(place, "it"));
        next = Make(directory_fd, path.substr(begin, end - begin), file);
      }
      if (!next) return next;
      parent = std::move(*next);
      begin = end + 1;
    }
    return parent;
  }

  // EEXIST: a link that leads nowhere is in the way.
  static Result<UniqueFd> Make(int parent, const std::string& name, bool file) {
    if (file) {
      ATOLL_TRY(sys::OpenAt(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644));
    } else if (::mkdirat(parent, name.c_str(), 0755) != 0) {
      return FailSys("mkdir " + name);
    }
    return sys::OpenBeneath(parent, name, O_PATH | O_NOFOLLOW);
  }

  const int root_;
  const Place place_;
  std::vector<uint64_t> mounts_;  // allowed: the root, and the volumes so far
};

}  // namespace

Status MountVolumes(RootState& state) {
  const std::vector<wire::Volume>& volumes = state.plan->volumes;
  if (volumes.empty() && state.plan->devices.empty()) return {};
  ATOLL_TRY(AttachNodes(state));
  // /a is attached before /a/b, which it would otherwise hide.
  std::vector<size_t> order(volumes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto depth = [&](size_t i) {
    return std::count(volumes[i].target.begin(), volumes[i].target.end(), '/');
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return depth(a) < depth(b); });
  ATOLL_ASSIGN(Targets targets, Targets::In(state.root.get()));
  const uid_t owner = state.host->IdBase(state.plan->slot);
  // Before the volumes, so that a target of a device is never made in a volume.
  for (const DeviceMount& file : state.devices->files) {
    const wire::Volume as_volume{.kind = wire::Volume::Kind::kHost,
                                 .source = "a device",
                                 .target = file.target,
                                 .read_only = true};
    ATOLL_TRY(targets.Mount(as_volume, file.source, owner));
  }
  for (const wire::DevicePath& link : state.devices->links) ATOLL_TRY(targets.Link(link));
  const auto bucket = [&](size_t i) { return (*state.volumes)[i].bucket; };
  for (const size_t i : order) {
    if (bucket(i) < 0) ATOLL_TRY(targets.Mount(volumes[i], (*state.volumes)[i], owner));
  }
  std::vector<std::pair<size_t, UniqueFd>> buckets;
  for (const size_t i : order) {
    if (bucket(i) < 0) continue;
    ATOLL_ASSIGN(UniqueFd target, targets.Find(volumes[i], true));
    buckets.emplace_back(i, std::move(target));
  }
  for (const auto& [i, target] : buckets) {
    ATOLL_TRY(Attach(bucket(i), target.get(), volumes[i].target.c_str()));
  }
  return {};
}

}  // namespace atl::spawner
