// Forks IPython kernels from a process that has already imported their modules. The zygote is a
// process of the image's own Python. It imports what every kernel imports, and numpy and pandas if
// the image has them, and then forks a kernel for each request. The kernel shares the zygote's
// memory until it writes to it. One zygote exists at a time, in a leaf of its own, for the
// kernelspec and environment that were used last. The first use starts it; a use after its end
// starts another.
//
// The zygote is not trusted. It runs as the image's user, so every process of that user can kill or
// mislead it. All it can tell is the pid of a new kernel. That pid comes from the host's kernel
// (SCM_CREDENTIALS), and execd accepts it only if the process is an orphan, leads its process
// group, and runs as the image's user. If anything about the zygote is unexpected, execd starts the
// kernel without it, which only takes longer.
//
// Thread rule: the event loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "execd/code/kernelspec.h"
#include "execd/core/core.h"
#include "execd/run/job.h"

namespace atl::execd {

class Zygote {
 public:
  using Id = uint64_t;
  // Gets the job of the kernel, which has a leaf of its own and is about to read its connection
  // file, or the error. Called once, from the loop.
  using Then = std::function<void(Result<std::unique_ptr<Job>>)>;

  // Streams, directory and files of a new kernel. The descriptors are borrowed.
  struct Order {
    std::string connection_file;
    int null = -1, output = -1, cwd = -1;
    Job::OnExit on_exit;
  };

  explicit Zygote(Core* core) : core_(*core) {}
  Zygote(const Zygote&) = delete;
  Zygote& operator=(const Zygote&) = delete;
  ~Zygote();

  // Returns true if kernels of this kernelspec can be forked.
  static bool Makes(const Kernelspec& spec);
  // Prepares the start of a kernel without zygote: sets `argv` to its command line and returns its
  // standard input.
  static Result<UniqueFd> Launcher(const Kernelspec& spec, const std::string& connection_file,
                                   std::vector<std::string>* argv);
  // Starts the zygote unless it runs. kFailedPrecondition: kernels of this kernelspec cannot be
  // forked, memory is short, or a zygote has ended before its first kernel. The caller then starts
  // the kernel without zygote.
  Status Prepare(const Kernelspec& spec, const Environment& env);
  // Calls Prepare and orders a kernel. `then` is not called if this fails, nor after Forget.
  Result<Id> Fork(const Kernelspec& spec, const Environment& env, Order order, Then then);
  void Forget(Id id);

 private:
  // A kernel that was ordered and has not reported yet.
  struct Birth {
    UniqueFd socket;
    EventLoop::Id watch = 0, deadline = 0;
    Job::OnExit on_exit;
    Then then;
  };

  Status Start(std::vector<std::string> argv, const Environment& env);
  void Stop();
  void OnWord(Id id);
  Result<std::unique_ptr<Job>> Adopt(Birth* birth);

  Core& core_;
  std::vector<std::string> argv_,
      env_;  // command line and environment of the zygote, without the list of modules
  std::unique_ptr<Job> job_;  // null: no zygote
  UniqueFd control_;
  bool proven_ = false, given_up_ = false;
  Id next_ = 1;
  std::map<Id, Birth> births_;
};

}  // namespace atl::execd
