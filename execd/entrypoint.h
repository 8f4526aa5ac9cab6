// The sandbox's own program: started from the start message, with the environment switches of the
// upstream bootstrap script, its last output kept for whoever asks why it ended.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "execd/job.h"
#include "execd/output.h"
#include "execd/output_ring.h"
#include "execd/sandbox.h"
#include "runtime/wire/start.h"

namespace atl::execd {

class Entrypoint {
 public:
  // What can be had before it is known which program: its standard streams.
  static Result<std::unique_ptr<Entrypoint>> Open(EventLoop* loop);
  // Fills `sandbox` from the message (user, cwd, environment), then starts the program. `on_exit`
  // gets what execd should exit with. Once.
  Status Start(Sandbox* sandbox, const wire::StartMessage& message,
               std::function<void(int code)> on_exit);
  bool started() const { return job_ != nullptr; }
  // To the program itself, as an init does.
  void Forward(int signal);
  const OutputRing& output() const { return output_; }

 private:
  OutputRing output_{64 << 10};
  std::unique_ptr<OutputPipe> out_, err_;
  UniqueFd null_, out_write_, err_write_;  // the program's ends, until it has them
  std::unique_ptr<Job> job_;
};

// The program and arguments that the switches make of `argv`:
//   BOOTSTRAP_CMD, or an argv of "-c" and words: run by BOOTSTRAP_SHELL (default bash, else sh);
//   no argv at all: that shell;
//   EXECD_BOOTSTRAP_PRE_SCRIPT: sourced by the shell, which then becomes the program.
std::vector<std::string> BootstrapArgv(const Sandbox& sandbox, std::vector<std::string> argv);

}  // namespace atl::execd
