// A job is one program that execd runs for somebody (a command, a run in a session, a terminal, the
// entrypoint) in a leaf of its own, with what all of them need: a time limit, an interrupt that
// ends in a kill, and an exit that says why. When a job is killed nothing of it stays; when it ends
// by itself, processes that it left in the background go on, as in a shell.
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
  int code = 0;    // exit status; -1 if a signal ended it
  int signal = 0;  // 0 if it exited
  bool timed_out = false;
  bool out_of_memory = false;
  // A process was killed for memory meanwhile, and the program has gone on. On a hybrid host it may
  // have been another command's.
  bool lost_to_memory = false;
  // The limit of processes kept somebody in the sandbox from starting one meanwhile.
  bool fork_refused = false;
  // "exit status 3", "signal: killed (out of memory …)": one line.
  std::string Describe() const;
  // What there is to tell of a program that has exited with 0 all the same; else empty.
  std::string_view Warning() const;
};

class Job {
 public:
  using OnExit = std::function<void(const JobExit&)>;
  // `spec`'s leaf and tasks are filled in here. `on_exit` is called once, from the loop, after the
  // program itself has been reaped; never if this fails.
  static Result<std::unique_ptr<Job>> Start(Core* core, SpawnSpec spec, int64_t timeout_us,
                                            OnExit on_exit);
  // For a process that somebody else has started: an orphan (Sandbox::IsOrphan) that leads a
  // process group and waits to be told. It is moved into a leaf, which takes milliseconds.
  static Result<std::unique_ptr<Job>> Adopt(Core* core, pid_t pid, OnExit on_exit);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  // A running job is killed.
  ~Job();

  bool running() const { return running_; }
  pid_t pid() const { return pid_; }
  // SIGTERM to the process group; what is left of the job after 3 s is killed.
  void Interrupt();
  // To the process group.
  void Signal(int signal);
  // The whole leaf, at once.
  void Kill();
  // What the program leaves behind when it ends by itself is killed, too.
  void EndWhole() { killed_ = true; }
  // For a program that works for one client after the other. BeginPart: what the kernel has counted
  // until now is not of the piece of work that begins. EndPart: it has ended with `code`; returns
  // what there is to tell of it, limits included.
  void BeginPart();
  JobExit EndPart(int code);
  // Moves the program, which takes milliseconds, into a new leaf, and returns the old one with what
  // else is in it. Null: nothing else is there, or there are no leaves.
  std::unique_ptr<Leaf> LeaveOthers();
  // Gets the leaf of a program that has ended, in place of the pool.
  void OnLeaf(std::function<void(std::unique_ptr<Leaf>)> take) { take_leaf_ = std::move(take); }
  // While this holds it is nobody's yet and yields to all others: that memory took it is no news of
  // the sandbox (Core::note).
  void Yields(bool yields) { yields_ = yields; }

 private:
  // With a leaf.
  Job(Core* core, OnExit on_exit);
  void Runs(pid_t pid);
  void CountFromHere();
  // There is no process.
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
