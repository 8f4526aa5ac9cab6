// The inside of an isolated session: runs, served by the execd that is the session's process 1 and
// sees what the session sees. Unlike a Bash session (run/session.h), each run is a new shell that
// is given the state of the one before it, so that an interrupted one leaves nothing half-way.
//
// Thread rule: the loop's.
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
  // In the background; of those that have ended the oldest are forgotten.
  static constexpr size_t kMaxRuns = 64;
  static constexpr size_t kMaxWaiting = 64;

  using Note = std::function<void(const wire::SessionNote&)>;
  // `durable`: what is written to the working directory stays, so that runs in the background have
  // where to put their output.
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
    int64_t started_us = 0, finished_us = 0;  // of the Unix epoch
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
  bool ended_ = false;                            // a run has left the shell
  std::deque<std::shared_ptr<Execution>> queue_;  // the first one runs
  std::deque<std::unique_ptr<Background>> background_;
  int64_t last_run_ms_ = 0;
  Note note_;
};

// The stream of a run that cannot be.
void RespondIsolatedError(const std::shared_ptr<Exchange>& exchange, std::string_view name,
                          std::string_view value, std::string_view text);

}  // namespace atl::execd
