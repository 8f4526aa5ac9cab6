// State that all parts of execd share: the loop, the inherited descriptors, and the contents of the
// start message. main creates the only object; it lives until execd exits. Thread rule: the event
// loop's thread.
#pragma once

#include <signal.h>
#include <time.h>

#include <array>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "execd/core/accounts.h"
#include "execd/core/environment.h"
#include "execd/core/leaf.h"
#include "execd/core/users.h"
#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

struct Core {
  // `cgroup` is the directory of the cgroup subtree, borrowed, or -1.
  Core(EventLoop* event_loop, int cgroup)
      : loop(*event_loop), leaves(event_loop, cgroup), cgroup_fd(cgroup) {}
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  EventLoop& loop;
  LeafPool leaves;
  std::vector<int> tasks_fds;  // cgroup v1 "tasks" files; hybrid hosts only
  int cgroup_fd;
  int score_fd = -1;      // wire::kExecdScoreFd
  uint64_t pass = 0;      // see PassGate
  time_t started_at = 0;  // when execd got its root
  Accounts accounts;      // hybrid hosts only

  std::string id;
  // Environment of the entrypoint. Commands get it too.
  Environment env;
  Identity user;            // the image's User; runs commands, sessions, terminals and file calls
  bool home_given = false;  // HOME comes from the image or the request, not from `user`
  std::string cwd = "/";
  int stop_signal = SIGTERM;  // the image's StopSignal
  std::string access_token;
  NameTable names;
  // Reports an event to the daemon. Null in an isolated session.
  std::function<void(LimitEvent)> note;
  static constexpr size_t kLimitEvents = static_cast<size_t>(LimitEvent::kCount);
  std::array<UniqueFd, kLimitEvents> limit_files;  // cgroup v2: files of the subtree, for ReadCount
  // Returns how often the event has happened to commands and the entrypoint. 0 without cgroups.
  int64_t Count(LimitEvent event) const;
  std::array<int64_t, kLimitEvents> noted{};  // Count() at the last report
  int64_t& Noted(LimitEvent event) { return noted[static_cast<size_t>(event)]; }
  // Reports the event to the daemon, unless it has been reported.
  void Note(LimitEvent event);

  // Returns the environment of one command: `env`, then the EXECD_ENVS file, then `extra`. The file
  // is read each time, because a program that writes it expects the next command to see the change.
  // HOME is that of `who`, unless home_given; a given HOME counts for every user, as with runc.
  Environment CommandEnvironment(const std::vector<std::pair<std::string, std::string>>& extra,
                                 const Identity& who) const;
  Environment CommandEnvironment() const { return CommandEnvironment({}, user); }
  // Creates the EXECD_ENVS file, once. Programs append to it to set variables of later commands.
  // The file exists from the start, because upstream's script creates it. Failure is ignored: a
  // read-only image has no such file.
  void TouchEnvsFile() const;
  // Returns the directory that "~" stands for in requests.
  std::string_view Home(const Identity& who) const;
  std::string_view Home() const { return Home(user); }
  Result<std::string> Path(std::string_view request_path) const {
    return ExpandPath(request_path, env, Home());
  }
  // Returns the path of `bash`, else of `sh`, searched in PATH; empty if neither exists.
  std::string Shell() const;

  // --- Children. execd is PID 1 and reaps every process. The part that has started a child
  // registers a callback here.
  using OnExit = std::function<void(int wait_status)>;
  void ExpectExit(pid_t pid, OnExit on_exit) { children_[pid] = std::move(on_exit); }
  // Returns true if `pid` is an unreaped child for which no callback is registered: an orphan.
  bool IsOrphan(pid_t pid) const;
  // Reaps all children that have ended.
  void Reap();

 private:
  std::map<pid_t, OnExit> children_;
  mutable bool envs_file_touched_ = false;
};

// Opens a directory (O_PATH) for a child's fchdir, with the permissions of `identity`. Uses openat2
// without magic links, so that "/proc/self/fd/5" does not lead to the cgroup directory that execd
// holds (CVE-2024-21626).
Result<UniqueFd> OpenDirectory(const std::string& path, const Identity& identity);
// Opens a directory like OpenDirectory, and creates it and its missing parents with mode 0755.
// `on_made` gets each directory that was created, the last one included.
Result<UniqueFd> MakeDirectory(const std::string& path, const Identity& identity,
                               const std::function<Status(int dir)>& on_made = {});

// Returns a new descriptor of /dev/null. If the image has no such device, returns the reading end
// of a pipe without writers.
Result<UniqueFd> OpenNull();

// Returns a version 4 UUID: 36 characters with hyphens, or 32 without.
std::string NewUuid(bool hyphens);

// Parses a duration as Go writes it: "300ms", "1.5s", "1m30s". Returns microseconds, or -1 if it is
// malformed.
int64_t ParseDuration(std::string_view text);

}  // namespace atl::execd
