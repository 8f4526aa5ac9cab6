// Runs of an isolated session, served by the execd that is the session's process 1 and sees the
// session's files. Unlike a Bash session (run/session.h), each run is a new shell that gets the
// state of the previous run. So an interrupted run leaves no half-changed state.
//
// Thread rule: the event loop's thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "execd/core/core.h"
#include "execd/http/exchange.h"
#include "execd/isolated/request.h"
#include "execd/run/job.h"
#include "execd/run/spool.h"
#include "runtime/wire/session.h"

namespace atl::execd {

class IsolatedShell {
 public:
  // Limit on background runs. The oldest finished runs are forgotten.
  static constexpr size_t kMaxRuns = 64;
  static constexpr size_t kMaxWaiting = 64;

  using Note = std::function<void(const wire::SessionNote&)>;
  // `durable`: files written to the working directory are kept, so that background runs have a
  // place for their output.
  IsolatedShell(Core* core, bool durable, Note note)
      : core_(*core), durable_(durable), cwd_(core->cwd), note_(std::move(note)) {}
  IsolatedShell(const IsolatedShell&) = delete;
  IsolatedShell& operator=(const IsolatedShell&) = delete;

  void Run(const std::shared_ptr<Exchange>& exchange);      // POST /run
  void GetRun(const std::shared_ptr<Exchange>& exchange);   // GET /runs/{id}
  void GetLogs(const std::shared_ptr<Exchange>& exchange);  // GET /runs/{id}/logs?cursor=N

 private:
  class Execution;
  struct Background {
    std::string id;
    std::unique_ptr<Spool> log;
    UniqueFd code;
    std::unique_ptr<Job> job;
    int64_t started_us = 0, finished_us = 0;  // Unix time
    int exit_code = 0;
    bool running = true;
  };

  void StartNext();
  void StartBackground(const std::shared_ptr<Exchange>& exchange, const IsolatedRun& run);
  Result<std::unique_ptr<Background>> MakeBackground(const IsolatedRun& run);
  Background* Find(const std::shared_ptr<Exchange>& exchange);
  void Tell();

  Core& core_;
  const bool durable_;
  std::string cwd_;
  std::string state_;                             // shell text; empty before the first run
  bool ended_ = false;                            // a run has exited the shell
  std::deque<std::shared_ptr<Execution>> queue_;  // the first is running
  std::deque<std::unique_ptr<Background>> background_;
  int64_t last_run_ms_ = 0;
  Note note_;
};

// Answers with the event stream of a run that cannot be started.
void RespondIsolatedError(const std::shared_ptr<Exchange>& exchange, std::string_view name,
                          std::string_view value, std::string_view text);

}  // namespace atl::execd
