// What every part of execd shares: the loop, the descriptors it was born with, and what the start
// message said. One object, made in main, alive until the end. Thread rule: the loop's.
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
  // `cgroup` is the subtree's directory, or -1.
  Core(EventLoop* event_loop, int cgroup)
      : loop(*event_loop), leaves(event_loop, cgroup), cgroup_fd(cgroup) {}
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  EventLoop& loop;
  LeafPool leaves;
  std::vector<int> tasks_fds;  // v1 "tasks" files, hybrid hosts only
  int cgroup_fd;
  int score_fd = -1;      // wire::kExecdScoreFd
  uint64_t pass = 0;      // see PassGate
  time_t started_at = 0;  // when it got its root
  Accounts accounts;      // hybrid hosts only

  std::string id;
  // The environment of the entrypoint; commands get it too.
  Environment env;
  Identity user;  // the image's User: who commands, sessions, terminals and file calls run as
  bool home_given = false;  // HOME is the image's or the request's, and not `user`'s
  std::string cwd = "/";
  int stop_signal = SIGTERM;  // that the image wants to be stopped by
  std::string access_token;
  NameTable names;
  // Tells the daemon what has happened to the sandbox; nothing in an isolated session.
  std::function<void(LimitEvent)> note;
  static constexpr size_t kLimitEvents = static_cast<size_t>(LimitEvent::kCount);
  std::array<UniqueFd, kLimitEvents> limit_files;  // v2: the subtree's, of ReadCount
  // How often that has happened to commands and entrypoint so far. 0 without cgroups.
  int64_t Count(LimitEvent event) const;
  std::array<int64_t, kLimitEvents> noted{};  // of Count(), by then
  int64_t& Noted(LimitEvent event) { return noted[static_cast<size_t>(event)]; }
  // Tells of it, unless that has been done.
  void Note(LimitEvent event);

  // The environment of one command: ours, then the EXECD_ENVS file (read each time: whoever writes
  // it expects the next command to see it), then `extra`. As `who`, HOME is theirs; unless it is
  // given, which counts for everybody, as with runc.
  Environment CommandEnvironment(const std::vector<std::pair<std::string, std::string>>& extra,
                                 const Identity& who) const;
  Environment CommandEnvironment() const { return CommandEnvironment({}, user); }
  // Makes that file, once. Programs append to it to reach later commands; it exists from the start,
  // as upstream's script makes it. Best effort: a read-only image has none.
  void TouchEnvsFile() const;
  // "~" in requests.
  std::string_view Home(const Identity& who) const;
  std::string_view Home() const { return Home(user); }
  Result<std::string> Path(std::string_view request_path) const {
    return ExpandPath(request_path, env, Home());
  }
  // `bash` if it is on PATH, else `sh`, else empty.
  std::string Shell() const;

  // --- Children. PID 1 reaps everybody; whoever started a child hears of its end here.
  using OnExit = std::function<void(int wait_status)>;
  void ExpectExit(pid_t pid, OnExit on_exit) { children_[pid] = std::move(on_exit); }
  // Whether it is a child of ours, not reaped yet, of whose end nobody is to hear: an orphan.
  bool IsOrphan(pid_t pid) const;
  // Reaps all that have ended.
  void Reap();

 private:
  std::map<pid_t, OnExit> children_;
  mutable bool envs_file_touched_ = false;
};

// A directory as a descriptor (O_PATH), for a child's fchdir: by openat2 without magic links, so
// that "/proc/self/fd/5" is no way to the cgroup directory that execd holds (CVE-2024-21626), and
// with `identity`'s permissions.
Result<UniqueFd> OpenDirectory(const std::string& path, const Identity& identity);
// The same, made with its parents (0755) if it is missing. `on_made` gets each directory that was
// made, the path's own among them.
Result<UniqueFd> MakeDirectory(const std::string& path, const Identity& identity,
                               const std::function<Status(int dir)>& on_made = {});

// A new descriptor of /dev/null; of a pipe without writer if the image has no such device.
Result<UniqueFd> OpenNull();

// A version 4 UUID: 36 characters with hyphens, or 32 without.
std::string NewUuid(bool hyphens);

// Go's durations: "300ms", "1.5s", "1m30s"; in microseconds, -1 if malformed.
int64_t ParseDuration(std::string_view text);

}  // namespace atl::execd
