#include "runtime/spawner/kernel/devices.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <string>

#include "runtime/spawner/kernel/mounts.h"

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

}  // namespace

Result<UniqueFd> MountDeviceNodes(int target) {
  // The sandbox is charged for files that are written there. The size is runc's.
  ATOLL_ASSIGN(UniqueFd dev,
               NewMount("tmpfs", {{"mode", "0755"}, {"size", "64m"}, {"nr_inodes", "4k"}},
                        MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC));
  ATOLL_TRY(Attach(dev.get(), target, "/dev"));
  for (const Node& node : kNodes) {
    if (::mknodat(dev.get(), node.name, S_IFCHR | 0666,
                  makedev(node.major_number, node.minor_number)) != 0) {
      return FailSys(std::string("mknod /dev/") + node.name);
    }
  }
  for (const Link& link : kLinks) {
    if (::symlinkat(link.target, dev.get(), link.name) != 0) return FailSys("symlink in /dev");
  }
  for (const char* name : kDirectories) {
    if (::mkdirat(dev.get(), name, 0755) != 0) return FailSys("mkdir in /dev");
  }
  return dev;
}

}  // namespace atl::spawner
