// A resident shell: one process that runs one script after the other, as if a user typed them.
// Variables, functions, options, jobs, traps and descriptors persist for the next script. After
// each script the shell reports the state that another shell needs to replace it. So a script that
// ends the shell (`exit`, `set -e`, `exec`, a kill, a timeout) loses its jobs and descriptors only.
//
// Scripts and reports travel over a socket that no program of a script inherits (shell_text.cc);
// output travels over a pipe. If a script leaves processes behind, they stay in their leaf, and the
// shell gets a new leaf and a new pipe. So their later output is discarded, and the timeout of a
// later script does not kill them.
//
// Thread rule: the event loop's thread.
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
  // Limits on the stored state of one shell, and on that of all shells.
  static constexpr size_t kMaxState = 8 << 20;
  static constexpr size_t kMaxStates = 64 << 20;

  struct Run {
    std::string script, cwd;
    std::function<void(std::string_view)> output;
    std::function<void(const JobExit&)> ended;  // called after all output
  };
  struct Client {
    // The shell has reported its state after a run.
    std::function<void()> settled;
    // The shell has ended. `unsent` is a run that another shell must execute; else null.
    std::function<void(std::unique_ptr<Run> unsent)> gone;
    // Gets a leaf with the processes that a run has left behind.
    std::function<void(std::unique_ptr<Leaf>)> left;
  };

  // Starts a shell and restores `state` in it. The object lives until the process ends.
  static Result<std::shared_ptr<ResidentShell>> Start(Core* core, ShellState state, Client client);
  ResidentShell(const ResidentShell&) = delete;
  ResidentShell& operator=(const ResidentShell&) = delete;
  ~ResidentShell();

  // True if the shell has no run and can be given one.
  bool free() const { return !dead_ && !run_; }
  // True between the end of a run and the shell's report of its state.
  bool settling() const { return phase_ == Phase::kSettling; }
  // The state that the shell reported last.
  const ShellState& state() const { return state_; }

  // Starts a run. Requires free().
  void Begin(Run run);
  // Ends the run and the shell. The shell may first report its state. The run's exit is that of
  // SIGKILL.
  void Interrupt(bool timed_out);
  // Kills the shell and all processes of the run.
  void Kill();
  // Kills the shell only.
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
  bool overlong_ = false;  // the field being received is too long
  std::unique_ptr<OutputPipe> out_, next_out_;
  std::string fifo_;  // name of next_out_'s FIFO
  std::unique_ptr<Run> run_;
  bool dead_ = false, interrupted_ = false, timed_out_ = false;
  bool told_ = false;     // the shell has reported its state since the run began
  std::string seen_cwd_;  // the shell's directory when it was interrupted
  size_t counted_ = 0;    // this shell's share of g_state_bytes
  static size_t g_state_bytes;
};

}  // namespace atl::execd
