#include "runtime/spawner/instance.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <climits>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "runtime/base/sys.h"
#include "runtime/spawner/rules/config.h"

namespace atl::spawner {
namespace {

constexpr const char* kInstances = "/run/atoll-instances";
constexpr const char* kInstanceVariable = "ATOLL_SPAWNER_INSTANCE";

// fcntl(2) record locks belong to the process. A child that outlives us (the janitor at the end of
// its work) does not keep them, as it would keep a lock of flock(2).
bool Lock(int fd) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return ::fcntl(fd, F_SETLK, &lock) == 0;
}

// Returns whether a process of a sandbox of that number is alive.
bool Populated(const std::string& cgroup_base, uint32_t number) {
  const auto events =
      sys::ReadFileAt(AT_FDCWD, cgroup_base + "/" + GroupName(number) + "/cgroup.events", 4096);
  return events && events->find("populated 1") != std::string::npos;
}

bool Exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
}

// Parses "NUMBER:DESCRIPTOR" and checks that the descriptor is the locked file of `run_dir`.
std::optional<Instance> TakeHandedOver(const std::string& run_dir) {
  const char* value = ::getenv(kInstanceVariable);
  if (value == nullptr) return std::nullopt;
  const std::string text(value);
  ::unsetenv(kInstanceVariable);
  uint32_t number = 0;
  int fd = -1;
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return std::nullopt;
  std::from_chars(text.data(), text.data() + colon, number);
  std::from_chars(text.data() + colon + 1, text.data() + text.size(), fd);
  if (fd < 3 || ::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) return std::nullopt;
  Instance instance{number, UniqueFd(fd)};
  char owner[PATH_MAX];
  const ssize_t size = ::pread(fd, owner, sizeof owner, 0);
  if (size < 0 || std::string_view(owner, static_cast<size_t>(size)) != run_dir || !Lock(fd)) {
    return std::nullopt;
  }
  return instance;
}

}  // namespace

std::string GroupName(uint32_t instance) {
  return "atoll" + std::to_string(instance);
}

Status HandOver(const Instance& instance) {
  const std::string text =
      std::to_string(instance.number) + ":" + std::to_string(instance.lock.get());
  if (::fcntl(instance.lock.get(), F_SETFD, 0) != 0) return FailSys("fcntl F_SETFD");
  if (::setenv(kInstanceVariable, text.c_str(), 1) != 0) return FailSys("setenv");
  return {};
}

Result<Instance> ClaimInstance(const std::string& run_dir, const std::string& cgroup_base,
                               bool inherits) {
  ATOLL_TRY(sys::EnsureDirAt(AT_FDCWD, kInstances, 0755));
  if (auto handed_over = TakeHandedOver(run_dir)) return std::move(*handed_over);
  // kLeft is the last resort: cgroups of a dead spawner whose run directory, with the records, is
  // gone. Nobody can adopt its sandboxes any more. The spawner that takes the number kills them as
  // strays.
  enum class Pass { kOurs, kUnowned, kLeft };
  for (Pass pass : {Pass::kOurs, Pass::kUnowned, Pass::kLeft}) {
    if (inherits && pass != Pass::kOurs) {
      return Fail(Code::kNotFound, "the last spawner of " + run_dir + " was ended in order");
    }
    for (uint32_t number = 0; number < kMaxInstances; ++number) {
      const std::string path = std::string(kInstances) + "/" + std::to_string(number);
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
          return Fail(Code::kAlreadyExists, "another spawner serves " + run_dir);
        }
        continue;
      }
      // The owner may have ended, or another come, between the look and the lock.
      char now[PATH_MAX];
      const ssize_t size = ::pread(file.get(), now, sizeof now, 0);
      if (size < 0 || std::string_view(now, static_cast<size_t>(size)) != owner) continue;
      // A correct owner is not written again. A spawner that died between the two calls would leave
      // the next one, and with it these sandboxes, without their number.
      if (owner == run_dir) return Instance{number, std::move(file)};
      if (::ftruncate(file.get(), 0) != 0 || ::pwrite(file.get(), run_dir.data(), run_dir.size(),
                                                      0) != static_cast<ssize_t>(run_dir.size())) {
        return FailSys("write " + path);
      }
      return Instance{number, std::move(file), true};
    }
  }
  return Fail(Code::kResourceExhausted, "all " + std::to_string(kMaxInstances) +
                                            " instances of this host are in use (see " +
                                            kInstances + ")");
}

}  // namespace atl::spawner
