// The sandbox's own program: started from the start message, with the environment switches of the
// upstream bootstrap script. Its output goes to the daemon; the last of it is kept here for a
// daemon that was restarted, and for whoever asks inside the exec API.
//
// The standard streams are /proc/1/fd/1 and 2 of a sandbox (the spawner has put FIFOs there), so
// that programs reach the log as in other containers, where process 1 is the program itself. What
// execd holds is in none of those files.
//
// While the daemon takes output, though slowly, the program waits for it as for any full pipe. It
// never waits for a daemon that is away or stuck: then the oldest output is overwritten.
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
  // What can be had before it is known which program: its standard streams.
  static Result<std::unique_ptr<Entrypoint>> Open(EventLoop* loop);
  // Starts the program, if there is one, in a sandbox that is filled. `on_exit` gets what execd
  // should exit with. Once.
  Status Start(Core* core, std::vector<std::string> argv, std::function<void(int code)> on_exit);
  bool started() const { return job_ != nullptr; }
  bool ended() const { return exit_code_.has_value(); }
  // There will be no program: `on_exit` gets `code` when what was printed so far is on its way, as
  // after its end. In place of Start.
  void GiveUp(int code, std::function<void(int code)> on_exit);
  // The program's own streams, for another one.
  void GiveStdio(SpawnSpec* spec) const;
  // A line of ours among its errors.
  void Say(std::string_view line);
  // For the daemon, beside the output.
  void Note(std::string_view text);
  // To the program itself, as an init does.
  void Forward(int signal);
  // Sends the output from `offset` on to a daemon, after `first`. Whoever came before is let go.
  void Feed(UniqueFd daemon, uint64_t offset, std::string first = {});
  bool fed() const { return feed_->connected(); }
  const TimedOutput& output() const { return output_; }

 private:
  // One of the two streams.
  struct Source {
    OutputStream stream;
    std::unique_ptr<OutputPipe> pipe;
    uint64_t read = 0;    // bytes so far
    uint64_t wanted = 0;  // once the program has ended: what it had written by then
  };
  void Keep(Source* source, std::string_view bytes);
  // Not through the pipe, which may be full.
  void Insert(OutputStream stream, std::string_view text);
  // Holds the program back, or lets it go on.
  void Balance();
  void LosePatience();
  void HoldBack(bool held);
  // The program has ended: what it has written goes out before execd does, in bounded time.
  void Ended(int code);
  void Settle();
  void SetEndTimer();

  EventLoop* loop_ = nullptr;
  TimedOutput output_{64 << 10};
  std::optional<OutputFeed> feed_;
  Source out_{OutputStream::kStdout, {}}, err_{OutputStream::kStderr, {}};
  bool held_ = false;
  bool patient_ = true;  // the daemon has taken something since it was last given up
  EventLoop::Id patience_ = 0;
  std::function<void(int)> on_exit_;
  std::optional<int> exit_code_;  // set: the program has ended
  bool end_connected_ = false;    // what end_timer_ was set for
  EventLoop::Id end_timer_ = 0;
  // The program's ends. Kept: others are given them later, or open them by name.
  UniqueFd null_, out_write_, err_write_;
  std::unique_ptr<Job> job_;
};

// What the message says of user, working directory and environment.
Status FillSandbox(Core* core, const wire::StartMessage& message);

// The program and arguments that the switches make of `argv`:
//   BOOTSTRAP_CMD, or an argv of "-c" and words: run by BOOTSTRAP_SHELL (default bash, else sh);
//   no argv at all: no program, the sandbox runs until it is ended;
//   EXECD_BOOTSTRAP_PRE_SCRIPT: sourced by the shell, which then becomes the program.
std::vector<std::string> BootstrapArgv(const Core& core, std::vector<std::string> argv);

}  // namespace atl::execd
