#include "runtime/spawner/device_template.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "runtime/base/sys.h"
#include "runtime/spawner/config.h"
#include "runtime/spawner/mounts.h"

namespace atl::spawner {
namespace {

struct Node {
  const char* name;
  unsigned major_number;
  unsigned minor_number;
};
constexpr Node kNodes[] = {{"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
                           {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};

struct Link {
  const char* name;
  const char* target;
};
constexpr Link kLinks[] = {{"fd", "/proc/self/fd"},
                           {"stdin", "/proc/self/fd/0"},
                           {"stdout", "/proc/self/fd/1"},
                           {"stderr", "/proc/self/fd/2"},
                           {"ptmx", "pts/ptmx"}};

constexpr const char* kDirectories[] = {"pts", "shm", "mqueue"};

Status Own(int dir, const char* name) {
  if (::fchownat(dir, name, kStoreIdBase, kStoreIdBase, AT_SYMLINK_NOFOLLOW) != 0) {
    return FailSys(std::string("chown /dev/") + name);
  }
  return {};
}

}  // namespace

Status MakeDeviceTemplate(const char* mount_point) {
  ATOLL_ASSIGN(const UniqueFd target, sys::Open(mount_point, O_PATH | O_DIRECTORY));
  ATOLL_ASSIGN(const UniqueFd mount,
               NewMount("tmpfs", {{"mode", "0755"}, {"size", "64k"}, {"nr_inodes", "64"}},
                        MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC));
  ATOLL_TRY(Attach(mount.get(), target.get(), mount_point));
  ATOLL_ASSIGN(const UniqueFd dir, sys::Open(mount_point, O_RDONLY | O_DIRECTORY));
  for (const Node& node : kNodes) {
    if (::mknodat(dir.get(), node.name, S_IFCHR | 0666,
                  makedev(node.major_number, node.minor_number)) != 0) {
      return FailSys(std::string("mknod /dev/") + node.name);
    }
    if (::fchmodat(dir.get(), node.name, 0666, 0) != 0) return FailSys("chmod device");  // umask
    ATOLL_TRY(Own(dir.get(), node.name));
  }
  for (const Link& link : kLinks) {
    if (::symlinkat(link.target, dir.get(), link.name) != 0) return FailSys("symlink in /dev");
    ATOLL_TRY(Own(dir.get(), link.name));
  }
  for (const char* name : kDirectories) {
    if (::mkdirat(dir.get(), name, 0755) != 0) return FailSys("mkdir in /dev");
    ATOLL_TRY(Own(dir.get(), name));
  }
  if (::fchown(dir.get(), kStoreIdBase, kStoreIdBase) != 0) return FailSys("chown /dev");
  return {};
}

}  // namespace atl::spawner
