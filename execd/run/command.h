// POST /command and related routes: status, logs, interrupt. The output of a foreground command is
// streamed as it arrives. A background command writes to a file of its own.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "execd/core/core.h"
#include "execd/http/exchange.h"
#include "execd/run/command_request.h"
#include "execd/run/events.h"
#include "execd/run/job.h"
#include "execd/run/output.h"
#include "execd/run/output_events.h"
#include "execd/run/spool.h"

namespace atl::execd {

class Commands {
 public:
  explicit Commands(Core* core) : core_(*core) {}
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  // POST /command
  void Run(const std::shared_ptr<Exchange>& exchange);
  // Runs a request that came by another route (POST /code without a language).
  void RunRequest(const std::shared_ptr<Exchange>& exchange, const CommandRequest& request);
  // Handles DELETE /command?id=… for an id that no session has. Answers when the command has ended.
  void Interrupt(const std::shared_ptr<Exchange>& exchange, const std::string& id);
  // GET /command/status/{id}
  void Status(const std::shared_ptr<Exchange>& exchange);
  // GET /command/{id}/logs
  void Logs(const std::shared_ptr<Exchange>& exchange);

 private:
  // Record of a command that is running or finished.
  struct Record {
    std::string id;
    std::string content;
    bool background = false;
    bool running = true;
    int exit_code = 0;
    std::string error;
    timespec started{}, finished{};
    std::unique_ptr<Job> job;
    std::unique_ptr<Spool> spool;                    // background only
    UniqueFd notebook;                               // see AnswerNotebookProbe
    std::vector<std::shared_ptr<Exchange>> waiting;  // interrupt requests, answered at the end
  };
  class Foreground;

  Result<SpawnSpec> Prepare(const CommandRequest& request, Identity* identity, UniqueFd* cwd,
                            UniqueFd* notebook, UniqueFd* script) const;
  void StartForeground(const std::shared_ptr<Exchange>& exchange, const CommandRequest& request,
                       SpawnSpec spec, UniqueFd notebook, OutputForm form);
  void StartBackground(const std::shared_ptr<Exchange>& exchange, const CommandRequest& request,
                       SpawnSpec spec);
  std::shared_ptr<Record> NewRecord(const CommandRequest& request);
  void Finish(const std::shared_ptr<Record>& record, int exit_code, std::string error);
  std::shared_ptr<Record> Find(const std::string& id) const;
  void Forget();

  // Limits on finished commands; the oldest is forgotten first.
  static constexpr size_t kMaxFinished = 1000;
  static constexpr size_t kMaxContent = 1 << 20;

  Core& core_;
  std::map<std::string, std::shared_ptr<Record>> records_;
  std::deque<std::shared_ptr<Record>> finished_;
  size_t finished_content_ = 0;
};

}  // namespace atl::execd
