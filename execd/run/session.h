// Bash sessions: /session… . Each session has a resident shell (resident_shell.h), which its first
// run starts. Upstream starts a shell for each run. As in upstream, `exit` ends a run and not the
// session, which continues in another shell with the state of the first. A run that begins during
// another run gets a shell of its own, a copy of the session's shell before that run. Its changes
// do not reach the session.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "execd/core/core.h"
#include "execd/http/exchange.h"
#include "execd/run/resident_shell.h"

namespace atl::execd {

class Sessions {
 public:
  static constexpr size_t kMaxSessions = 256;

  explicit Sessions(Core* core) : core_(*core) {}
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;

  void Create(const std::shared_ptr<Exchange>& exchange);  // POST /session
  void Run(const std::shared_ptr<Exchange>& exchange);     // POST /session/{id}/run
  void Delete(const std::shared_ptr<Exchange>& exchange);  // DELETE /session/{id}
  // Ends the session and all its processes. Returns false if no session has that id.
  bool Destroy(const std::string& id);

 private:
  class Execution;
  struct Request;
  struct Session {
    std::string id;
    ShellState state;                      // used while there is no shell
    std::shared_ptr<ResidentShell> shell;  // null before the first run and after the shell's end
    std::map<Execution*, std::shared_ptr<Execution>> running;
    std::vector<std::unique_ptr<Leaf>> left;     // hold processes of runs that have ended
    std::vector<std::function<void()>> waiting;  // callbacks that wait until the shell has settled
    bool deleted = false;

    const ShellState& now() const { return shell ? shell->state() : state; }
  };

  void RunIn(const std::shared_ptr<Session>& session, const std::shared_ptr<Exchange>& exchange,
             const Request& request);
  // Starts a shell. `own`: the session's own shell; false: a shell for a single run.
  Result<std::shared_ptr<ResidentShell>> StartShell(const std::shared_ptr<Session>& session,
                                                    bool own);
  void KeepLeft(Session* session, std::unique_ptr<Leaf> leaf);

  Core& core_;
  std::map<std::string, std::shared_ptr<Session>> sessions_;
};

}  // namespace atl::execd
