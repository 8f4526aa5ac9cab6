// A shell that stays: one process, given one script after the other as somebody types them into it.
// Variables, functions, options, jobs, traps and descriptors are simply there for the next script.
// What it would take to start another one in its place is told by the shell after each script; so a
// script that ends the shell (`exit`, `set -e`, `exec`, a kill, a timeout) loses its jobs and
// descriptors, and no more.
//
// Scripts and reports travel on a socket that no program of a script has (shell_text.cc), output by
// a pipe. Processes that a script leaves behind get a leaf of their own, and the shell another
// pipe: what they print later is nobody's, and the timeout of a later script does not kill them.
//
// Thread rule: the loop's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "execd/core/core.h"
#include "execd/run/job.h"
#include "execd/run/output.h"
#include "execd/run/shell_text.h"

namespace atl::execd {

class ResidentShell : public std::enable_shared_from_this<ResidentShell> {
 public:
  // The state of one shell that is kept, and those of all.
  static constexpr size_t kMaxState = 8 << 20;
  static constexpr size_t kMaxStates = 64 << 20;

  struct Run {
    std::string script, cwd;
    std::function<void(std::string_view)> output;
    std::function<void(const JobExit&)> ended;  // all output has been told
  };
  struct Client {
    // It is known how the shell is after a run.
    std::function<void()> settled;
    // The shell has ended. `unsent`: a run that another shell must do; else null.
    std::function<void(std::unique_ptr<Run> unsent)> gone;
    // A leaf with the processes that a run has left behind.
    std::function<void(std::unique_ptr<Leaf>)> left;
  };

  // Starts a process that is as `state` says. The object lives until the process ends.
  static Result<std::shared_ptr<ResidentShell>> Start(Core* core, ShellState state, Client client);
  ResidentShell(const ResidentShell&) = delete;
  ResidentShell& operator=(const ResidentShell&) = delete;
  ~ResidentShell();

  // Whether it has no run, and can be given one.
  bool free() const { return !dead_ && !run_; }
  // Between the end of a run and the report of what has become of the shell.
  bool settling() const { return phase_ == Phase::kSettling; }
  // The shell's state when it last told it.
  const ShellState& state() const { return state_; }

  // free() must hold.
  void Begin(Run run);
  // Ends the run and the shell, which may say first how it is; the run's exit is SIGKILL's.
  void Interrupt(bool timed_out);
  // The shell and what the run has started, at once.
  void Kill();
  // The shell alone.
  void Release();
  void PauseOutput();
  void ResumeOutput();

 private:
  enum class Phase : uint8_t { kStarting, kRestoring, kIdle, kRunning, kSettling, kMoving };

  ResidentShell(Core* core, ShellState state, Client client)
      : core_(*core), state_(std::move(state)), client_(std::move(client)) {}
  Status Spawn();
  void Send(std::string_view bytes);
  void Flush();
  void Receive();
  void OnField(std::string field);
  void Commit(std::string text);
  void EndRun(const JobExit& exit);
  void Settle();
  Status MoveOutput();
  void Rest();
  void Ended(JobExit exit);
  void CountState(size_t size);

  Core& core_;
  ShellState state_, next_;
  Client client_;
  bool bash_ = false;
  Phase phase_ = Phase::kStarting;
  std::unique_ptr<Job> job_;
  UniqueFd socket_;
  EventLoop::Id watch_ = 0, grace_ = 0;
  std::string received_, outgoing_;
  bool overlong_ = false;  // the field under way
  std::unique_ptr<OutputPipe> out_, next_out_;
  std::string fifo_;  // of next_out_
  std::unique_ptr<Run> run_;
  bool dead_ = false, interrupted_ = false, timed_out_ = false;
  bool told_ = false;     // how it is, since the run began
  std::string seen_cwd_;  // where it was when it was interrupted
  size_t counted_ = 0;    // of all states' bytes
  static size_t g_state_bytes;
};

}  // namespace atl::execd
