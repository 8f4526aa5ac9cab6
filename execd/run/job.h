// A job is one program that execd runs in a leaf of its own: a command, a run in a session, a
// terminal, the entrypoint. A job has a time limit, an interrupt that ends in a kill, and an exit
// result with a reason. Killing a job kills all its processes. If the program exits by itself, its
// background processes go on, as in a shell.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "execd/core/core.h"
#include "execd/run/spawn.h"

namespace atl::execd {

struct JobExit {
  int code = 0;    // exit status; -1 if a signal ended the program
  int signal = 0;  // 0 if the program exited
  bool timed_out = false;
  bool out_of_memory = false;
  // The OOM killer has killed a process during the job, and the program has continued. On a hybrid
  // host the process may belong to another command.
  bool lost_to_memory = false;
  // A fork in the sandbox has failed at the limit on processes during the job.
  bool fork_refused = false;
  // Returns one line: "exit status 3", "signal: killed (out of memory …)".
  std::string Describe() const;
  // Returns a warning about limits for a program that has exited with 0; else empty.
  std::string_view Warning() const;
};

class Job {
 public:
  using OnExit = std::function<void(const JobExit&)>;
  // Starts a program; the leaf and tasks of `spec` are filled in here. Calls `on_exit` once, from
  // the loop, after the program itself has been reaped. `on_exit` is not called if Start fails.
  static Result<std::unique_ptr<Job>> Start(Core* core, SpawnSpec spec, int64_t timeout_us,
                                            OnExit on_exit);
  // Makes a job of a process that another process has started. It must be an orphan
  // (Core::IsOrphan) and a process group leader, and wait for a message before it continues. Moves
  // it into a leaf, which blocks for milliseconds.
  static Result<std::unique_ptr<Job>> Adopt(Core* core, pid_t pid, OnExit on_exit);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  // Kills a running job.
  ~Job();

  bool running() const { return running_; }
  pid_t pid() const { return pid_; }
  // Sends SIGTERM to the process group, and kills what is left of the job after 3 s.
  void Interrupt();
  // Sends a signal to the process group.
  void Signal(int signal);
  // Kills every process in the leaf.
  void Kill();
  // Also kills what the program leaves behind when it exits by itself.
  void EndWhole() { killed_ = true; }
  // Delimit pieces of work of a program that serves clients in sequence. BeginPart restarts the
  // counts of limit events. EndPart returns the exit of the piece of work, with `code` and the
  // limit events since BeginPart.
  void BeginPart();
  JobExit EndPart(int code);
  // Moves the program into a new leaf, which blocks for milliseconds, and returns the old leaf with
  // the other processes in it. Returns null if there are no other processes or no leaves.
  std::unique_ptr<Leaf> LeaveOthers();
  // Sets the receiver of the leaf of a program that has ended. Without it the leaf returns to the
  // pool.
  void OnLeaf(std::function<void(std::unique_ptr<Leaf>)> take) { take_leaf_ = std::move(take); }
  // Marks the job as a spare that no client uses and that yields to all others. An OOM kill of such
  // a job is not reported as an event of the sandbox (Core::note).
  void Yields(bool yields) { yields_ = yields; }

 private:
  // Takes a leaf from the pool.
  Job(Core* core, OnExit on_exit);
  void Runs(pid_t pid);
  void CountFromHere();
  // Cleans up a job whose process was not started.
  tl::unexpected<Error> GiveUp(Error why);
  void Ended(int wait_status);
  void TellOfLimits(JobExit* exit);

  Core& core_;
  OnExit on_exit_;
  std::function<void(std::unique_ptr<Leaf>)> take_leaf_;
  std::unique_ptr<Leaf> leaf_;
  pid_t pid_ = -1;
  EventLoop::Id timeout_ = 0, grace_ = 0;
  int64_t oom_kills_before_ = 0;
  int64_t forks_refused_before_ = 0;
  bool running_ = true;
  bool timed_out_ = false;
  bool killed_ = false;
  bool yields_ = false;
};

}  // namespace atl::execd
