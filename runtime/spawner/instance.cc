#include "runtime/spawner/instance.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>

#include "runtime/base/sys.h"
#include "runtime/spawner/config.h"

namespace atl::spawner {
namespace {

constexpr const char* kDirectory = "/run/atoll-instances";

// fcntl(2) record locks belong to the process: unlike flock(2), a child that outlives us (the
// janitor at the end of its work) does not keep them.
bool Lock(int fd) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return ::fcntl(fd, F_SETLK, &lock) == 0;
}

// A process of that number's sandboxes is still alive.
bool Populated(const std::string& cgroup_base, uint32_t number) {
  const auto events =
      sys::ReadFileAt(AT_FDCWD, cgroup_base + "/" + GroupName(number) + "/cgroup.events", 4096);
  return events && events->find("populated 1") != std::string::npos;
}

bool Exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
}

}  // namespace

std::string GroupName(uint32_t instance) {
  return "atoll" + std::to_string(instance);
}

Result<Instance> ClaimInstance(const std::string& run_dir, const std::string& cgroup_base) {
  ATOLL_TRY(sys::EnsureDirAt(AT_FDCWD, kDirectory, 0755));
  // The last resort: groups of a spawner that is dead and whose run directory, with the records, is
  // gone. Nobody can adopt them any more; whoever takes the number kills them as strays.
  enum class Pass { kOurs, kUnowned, kLeft };
  for (Pass pass : {Pass::kOurs, Pass::kUnowned, Pass::kLeft}) {
    for (uint32_t number = 0; number < kMaxInstances; ++number) {
      const std::string path = std::string(kDirectory) + "/" + std::to_string(number);
      ATOLL_ASSIGN(UniqueFd file, sys::Open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0644));
      ATOLL_ASSIGN(const std::string owner, sys::ReadAll(file.get(), PATH_MAX));
      const bool alive = Populated(cgroup_base, number);
      const bool fits = (pass == Pass::kOurs && owner == run_dir) ||
                        (pass == Pass::kUnowned && owner.empty() && !alive) ||
                        (pass == Pass::kLeft && (!alive || !Exists(owner)));
      if (!fits) continue;
      if (!Lock(file.get())) {
        // Two spawners with one run directory would take each other's socket and records.
        if (owner == run_dir) {
          return Fail(Code::kFailedPrecondition, "another spawner serves " + run_dir);
        }
        continue;
      }
      // What is right is not written again: a spawner that died between the two calls would leave
      // the next one, and with it the sandboxes of this one, without their number.
      if (owner == run_dir) return Instance{number, std::move(file)};
      if (::ftruncate(file.get(), 0) != 0 || ::pwrite(file.get(), run_dir.data(), run_dir.size(),
                                                      0) != static_cast<ssize_t>(run_dir.size())) {
        return FailSys("write " + path);
      }
      return Instance{number, std::move(file)};
    }
  }
  return Fail(Code::kResourceExhausted, "all " + std::to_string(kMaxInstances) +
                                            " instances of this host are in use (see " +
                                            kDirectory + ")");
}

}  // namespace atl::spawner
