// The shell, or another program, behind a terminal: on a pseudo-terminal, or on three pipes.
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
    std::string cwd;                // empty: the sandbox's
    std::string command;            // of the shell; empty: it is interactive
    std::vector<std::string> argv;  // in place of the shell; empty: the shell
    Variables envs;
  };

  // The controlling side of a new pseudo-terminal of that user. kResourceExhausted: the sandbox has
  // no more (ENOSPC).
  static Result<UniqueFd> OpenMaster(const Identity& identity);

  // The program on the pseudo-terminal of `master`, or on pipes if that is empty.
  static Result<std::unique_ptr<TerminalProcess>> Start(Core* core, const Program& program,
                                                        UniqueFd master, Callbacks callbacks);
  TerminalProcess(const TerminalProcess&) = delete;
  TerminalProcess& operator=(const TerminalProcess&) = delete;
  // Kills it with all its descendants.
  ~TerminalProcess();

  // False if the input is closed. What the program does not take yet is kept.
  bool Write(std::string_view bytes);
  // No more will be written: the pipe's end is closed behind what is pending; a terminal gets the
  // character that means it.
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
  // False at the end of file.
  bool ReadMaster();
  void FlushInput();
  void CloseInput();
  void Ended(const JobExit& exit);
  void FinishWhenDrained();
  void Finish();

  Core& core_;
  Callbacks callbacks_;
  UniqueFd master_;  // the terminal, or the writing end of stdin's pipe
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

// SIGINT, SIGTERM, SIGKILL, SIGQUIT, SIGHUP by name; 0 for others.
int TerminalSignal(std::string_view name);

}  // namespace atl::execd
