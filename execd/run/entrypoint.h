// The entrypoint: the sandbox's main program. The start message names it, and the variables of
// upstream's bootstrap script change it. Its output goes to the daemon. execd keeps the last output
// for a daemon that was restarted, and for requests to the exec API.
//
// The program's standard streams are the sandbox's /proc/1/fd/1 and 2, where the spawner has placed
// FIFOs. So programs that write there reach the log, as in other containers, in which process 1 is
// the program itself. No output that execd holds can be read from these files.
//
// While the daemon reads output, even slowly, the program waits for it as for any full pipe. It
// never waits for a daemon that is absent or stuck: execd then overwrites the oldest output.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "execd/core/core.h"
#include "execd/run/job.h"
#include "execd/run/output.h"
#include "execd/run/output_feed.h"
#include "execd/run/timed_output.h"
#include "runtime/wire/start.h"

namespace atl::execd {

class Entrypoint {
 public:
  // Opens the standard streams, which do not depend on the program.
  static Result<std::unique_ptr<Entrypoint>> Open(EventLoop* loop);
  // Starts the program, if there is one, once the sandbox is set up. `on_exit` gets the exit code
  // for execd. Call once.
  Status Start(Core* core, std::vector<std::string> argv, std::function<void(int code)> on_exit);
  bool started() const { return job_ != nullptr; }
  bool ended() const { return exit_code_.has_value(); }
  // Replaces Start if there will be no program. Calls `on_exit` with `code` once all output so far
  // has been sent, as after the end of a program.
  void GiveUp(int code, std::function<void(int code)> on_exit);
  // Gives another program the streams of the entrypoint.
  void GiveStdio(SpawnSpec* spec) const;
  // Adds a line of execd to the program's stderr.
  void Say(std::string_view line);
  // Adds a note for the daemon, apart from the output.
  void Note(std::string_view text);
  // Sends a signal to the program itself, as an init does.
  void Forward(int signal);
  // Sends `first` and then the output from `offset` on to a daemon. Disconnects an earlier daemon.
  void Feed(UniqueFd daemon, uint64_t offset, std::string first = {});
  bool fed() const { return feed_->connected(); }
  const TimedOutput& output() const { return output_; }

 private:
  // State of stdout or stderr.
  struct Source {
    OutputStream stream;
    std::unique_ptr<OutputPipe> pipe;
    uint64_t read = 0;    // bytes read so far
    uint64_t wanted = 0;  // bytes that the program had written when it ended
  };
  void Keep(Source* source, std::string_view bytes);
  // Appends to the output directly, because the pipe may be full.
  void Insert(OutputStream stream, std::string_view text);
  // Pauses or resumes reading from the program.
  void Balance();
  void LosePatience();
  void HoldBack(bool held);
  // Handles the program's end: sends what it has written before execd exits, within a time limit.
  void Ended(int code);
  void Settle();
  void SetEndTimer();

  EventLoop* loop_ = nullptr;
  TimedOutput output_{64 << 10};
  std::optional<OutputFeed> feed_;
  Source out_{OutputStream::kStdout, {}}, err_{OutputStream::kStderr, {}};
  bool held_ = false;
  bool patient_ = true;  // the daemon has read something since it was last considered stuck
  EventLoop::Id patience_ = 0;
  std::function<void(int)> on_exit_;
  std::optional<int> exit_code_;  // set once the program has ended
  bool end_connected_ = false;    // whether a daemon was connected when end_timer_ was set
  EventLoop::Id end_timer_ = 0;
  // The program's ends of the streams. Kept open, because other programs get them later or open
  // them by name.
  UniqueFd null_, out_write_, err_write_;
  std::unique_ptr<Job> job_;
};

// Applies the message's user, working directory and environment.
Status FillSandbox(Core* core, const wire::StartMessage& message);

// Returns the command line that these variables make of `argv`:
//   BOOTSTRAP_CMD, or an argv of "-c" and words: run by BOOTSTRAP_SHELL (default bash, else sh).
//   EXECD_BOOTSTRAP_PRE_SCRIPT: the shell sources it and then executes the program.
// An empty result (no argv and no BOOTSTRAP_CMD) means no program: the sandbox runs until it is
// deleted.
std::vector<std::string> BootstrapArgv(const Core& core, std::vector<std::string> argv);

}  // namespace atl::execd
