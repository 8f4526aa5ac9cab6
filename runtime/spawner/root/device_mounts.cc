#include "runtime/spawner/root/device_mounts.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "runtime/base/sys.h"
#include "runtime/spawner/kernel/mounts.h"
#include "runtime/spawner/root/root_steps.h"
#include "runtime/wire/plan.h"

namespace atl::spawner {
namespace {

const wire::Device* Find(const Host& host, const std::string& name) {
  const auto& devices = host.config.devices;
  const auto found = std::find_if(devices.begin(), devices.end(),
                                  [&name](const auto& device) { return device.name == name; });
  return found == devices.end() ? nullptr : &*found;
}

Error Unusable(const std::string& path, const std::string& why) {
  return Error(Code::kInternal, "device file " + path + ": " + why);
}

Result<UniqueFd> OpenFile(const std::string& path, struct stat* info) {
  auto file = sys::Open(path, O_PATH);
  if (!file) return Fail(Unusable(path, file.error().message()));
  if (::fstat(file->get(), info) != 0) return FailSys("fstat " + path);
  return file;
}

Result<DeviceMount> OpenNode(const wire::DevicePath& node) {
  struct stat info {};
  ATOLL_ASSIGN(const UniqueFd file, OpenFile(node.source, &info));
  if (!S_ISCHR(info.st_mode)) return Fail(Unusable(node.source, "is not a character device"));
  // No user or group of the host is one of the sandbox.
  if ((info.st_mode & 0006) != 0006) {
    return Fail(Unusable(node.source, "only its owner or group may open it; give it mode 0666"));
  }
  DeviceMount mount{.target = node.target, .source = {.directory = false}};
  ATOLL_ASSIGN(mount.source.mount, CloneMount(file.get(), "", false));
  ATOLL_TRY(SetMountAttributes(mount.source.mount.get(), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, -1,
                               false, MS_PRIVATE));
  return mount;
}

// A target that another device of the plan brings, too, is attached once.
template <typename T>
bool HasTarget(const std::vector<T>& list, const std::string& target) {
  return std::any_of(list.begin(), list.end(),
                     [&target](const T& item) { return item.target == target; });
}

// Makes the empty file that a node is attached to.
Result<UniqueFd> MakeTarget(int dev, const std::string& path) {
  UniqueFd parent;
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string above = path.substr(0, slash);
    if (::mkdirat(dev, above.c_str(), 0755) != 0 && errno != EEXIST) {
      return FailSys("mkdir /dev/" + above);
    }
    // Not /dev/shm and /dev/pts, which are mounts.
    ATOLL_ASSIGN(parent, sys::OpenBeneath(dev, above, O_PATH | O_DIRECTORY));
  }
  const std::string name = path.substr(path.rfind('/') + 1);
  ATOLL_TRY(
      sys::OpenAt(parent ? parent.get() : dev, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0));
  return sys::OpenBeneath(dev, path, O_PATH | O_NOFOLLOW);
}

}  // namespace

Status CheckDevices(const Host& host, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (Find(host, name) != nullptr) continue;
    return Fail(Code::kNotFound,
                "plan: the spawner offers no device '" + name.substr(0, 64) +
                    "'; it read the devices when it was started (restart atoll-spawner)");
  }
  return {};
}

Result<DeviceSources> OpenDevices(const Host& host, const std::vector<std::string>& names) {
  DeviceSources sources;
  if (names.empty()) return sources;
  ATOLL_TRY(CheckDevices(host, names));
  if (::setns(host.host_mounts, CLONE_NEWNS) != 0) return FailSys("setns mount");
  for (const std::string& name : names) {
    const wire::Device& device = *Find(host, name);
    for (const wire::DevicePath& node : device.nodes) {
      if (HasTarget(sources.nodes, node.target)) continue;
      ATOLL_ASSIGN(DeviceMount mount, OpenNode(node));
      sources.nodes.push_back(std::move(mount));
    }
    for (const wire::DevicePath& path : device.mounts) {
      if (HasTarget(sources.files, path.target)) continue;
      struct stat info {};
      ATOLL_ASSIGN(const UniqueFd file, OpenFile(path.source, &info));
      const bool directory = S_ISDIR(info.st_mode);
      if (!directory && !S_ISREG(info.st_mode)) continue;
      DeviceMount mount{.target = path.target, .source = {.directory = directory}};
      ATOLL_ASSIGN(mount.source.mount, CloneMount(file.get(), "", true));
      ATOLL_TRY(SetMountAttributes(mount.source.mount.get(), kNoSuidDev | MOUNT_ATTR_RDONLY, -1,
                                   true, MS_PRIVATE));
      sources.files.push_back(std::move(mount));
    }
    for (const wire::DevicePath& link : device.links) {
      if (!HasTarget(sources.links, link.target)) sources.links.push_back(link);
    }
  }
  return sources;
}

Status AttachNodes(RootState& state) {
  if (state.devices->nodes.empty()) return {};
  // The slot's /dev, which lies on a directory that was checked to be the image's own.
  ATOLL_ASSIGN(const UniqueFd dev, sys::OpenInRoot(state.root.get(), "dev", O_PATH | O_DIRECTORY));
  for (const DeviceMount& node : state.devices->nodes) {
    const std::string path = node.target.substr(std::string_view("/dev/").size());
    ATOLL_ASSIGN(const UniqueFd target, MakeTarget(dev.get(), path));
    ATOLL_TRY(Attach(node.source.mount.get(), target.get(), node.target.c_str()));
  }
  return {};
}

}  // namespace atl::spawner
