// The shell or other program of a terminal, on a pseudo-terminal or on three pipes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "execd/core/core.h"
#include "execd/core/environment.h"
#include "execd/run/job.h"
#include "execd/run/output.h"
#include "execd/run/output_ring.h"

namespace atl::execd {

class TerminalProcess {
 public:
  struct Callbacks {
    std::function<void(bool is_stderr, std::string_view bytes)> output;
    std::function<void(const JobExit& exit)> exit;  // the last call
    std::function<void()> input_drained;
  };

  struct Program {
    Identity identity;
    std::string cwd;                // empty: the sandbox's directory
    std::string command;            // run by the shell; empty: an interactive shell
    std::vector<std::string> argv;  // replaces the shell; empty: the shell
    Variables envs;
  };

  // Opens the master of a new pseudo-terminal that `identity` owns. kResourceExhausted: the sandbox
  // has no more pseudo-terminals (ENOSPC).
  static Result<UniqueFd> OpenMaster(const Identity& identity);

  // Starts the program on the pseudo-terminal of `master`, or on pipes if `master` is invalid.
  static Result<std::unique_ptr<TerminalProcess>> Start(Core* core, const Program& program,
                                                        UniqueFd master, Callbacks callbacks);
  TerminalProcess(const TerminalProcess&) = delete;
  TerminalProcess& operator=(const TerminalProcess&) = delete;
  // Kills the program and all its descendants.
  ~TerminalProcess();

  // Writes to the program's input and queues what it does not read yet. Returns false if the input
  // is closed.
  bool Write(std::string_view bytes);
  // Ends the input after the queued bytes: closes a pipe, or sends a terminal its end-of-file
  // character.
  void EndInput();
  size_t pending_input() const { return input_.size(); }
  void Resize(int columns, int rows);
  void Signal(int signal) { job_->Signal(signal); }
  void PauseOutput();
  void ResumeOutput();

 private:
  TerminalProcess(Core* core, Callbacks callbacks)
      : core_(*core), callbacks_(std::move(callbacks)) {}
  Status OpenSlave(SpawnSpec* spec, UniqueFd* slave);
  Status OpenPipes(SpawnSpec* spec, UniqueFd ends[3]);
  void WatchMaster();
  void OnMaster(uint32_t events);
  // Returns false at the end of file.
  bool ReadMaster();
  void FlushInput();
  void CloseInput();
  void Ended(const JobExit& exit);
  void FinishWhenDrained();
  void Finish();

  Core& core_;
  Callbacks callbacks_;
  UniqueFd master_;  // the master, or the write end of the stdin pipe
  bool pty_ = true;
  bool input_ended_ = false;
  EventLoop::Id watch_ = 0;
  bool paused_ = false;
  bool exited_ = false;
  JobExit exit_;
  EventLoop::Id linger_ = 0;
  std::unique_ptr<OutputPipe> out_, err_;  // pipes only
  std::unique_ptr<Job> job_;
  std::string input_;
};

// Returns the number of SIGINT, SIGTERM, SIGKILL, SIGQUIT or SIGHUP by name; 0 for others.
int TerminalSignal(std::string_view name);

}  // namespace atl::execd
