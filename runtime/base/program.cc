#include "runtime/base/program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "runtime/base/move_descriptors.h"

namespace atl {
namespace {

class Actions {
 public:
  Actions() {
    ATOLL_CHECK(::posix_spawn_file_actions_init(&files) == 0);
    ATOLL_CHECK(::posix_spawnattr_init(&attributes) == 0);
  }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;
  ~Actions() {
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&attributes);
  }

  posix_spawn_file_actions_t files{};
  posix_spawnattr_t attributes{};
};

// The pointers are borrowed. posix_spawn(3) does not change the texts, whatever its types say.
std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Result<std::string> FindProgram(const std::string& name) {
  std::array<char, 4096> path{};
  const ssize_t n = ::readlink("/proc/self/exe", path.data(), path.size());
  if (n <= 0 || static_cast<size_t>(n) == path.size()) return FailSys("readlink /proc/self/exe");
  const std::string self(path.data(), static_cast<size_t>(n));
  const std::string beside = self.substr(0, self.rfind('/') + 1) + name;
  if (::access(beside.c_str(), X_OK) == 0) return beside;
  const std::string installed = std::string(ATOLL_LIBEXECDIR "/") + name;
  if (::access(installed.c_str(), X_OK) == 0) return installed;
  return FailSys("find " + name + " at " + beside + " or " + installed);
}

Result<pid_t> Spawn(const SpawnedProgram& program) {
  Actions actions;
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  int error = ::posix_spawn_file_actions_addopen(&actions.files, 0, "/dev/null", O_RDONLY, 0);
  // A descriptor may have a number that is the target of another one, so all are lifted first.
  int above = STDERR_FILENO + 1;
  for (const auto& [ours, theirs] : program.descriptors) above = std::max(above, theirs + 1);
  std::vector<UniqueFd> lifted;
  for (const auto& [ours, theirs] : program.descriptors) {
    ATOLL_ASSIGN(lifted.emplace_back(), LiftDescriptor(ours, above));
    if (error == 0) {
      error = ::posix_spawn_file_actions_adddup2(&actions.files, lifted.back().get(), theirs);
    }
  }
  if (error == 0) error = ::posix_spawnattr_setsigmask(&actions.attributes, &none);
  if (error == 0) error = ::posix_spawnattr_setsigdefault(&actions.attributes, &all);
  if (error == 0) {
    error = ::posix_spawnattr_setflags(
        &actions.attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  pid_t pid = -1;
  if (error == 0) {
    error = ::posix_spawn(&pid, program.path.c_str(), &actions.files, &actions.attributes,
                          Pointers(program.argv).data(), Pointers(program.environment).data());
  }
  if (error != 0) return Fail(SysError("posix_spawn " + program.path, error));
  return pid;
}

}  // namespace atl
