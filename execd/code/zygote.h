// Kernels of IPython without their start. A zygote is a process of the image's own Python that has
// imported what each of them imports (and numpy and pandas, where the image has them) and then
// forks: a kernel shares its memory until it writes to it. There is one at a time, in a leaf of its
// own, for the kernelspec and the environment that were used last; it is made at the first use, and
// anew when it has ended.
//
// It is trusted with nothing. It runs as the image's user, so whoever runs as that user may end or
// mislead it; what it may name is a new process of its own: the pid comes from the kernel
// (SCM_CREDENTIALS), and is taken only if it is an orphan, its group's leader, and of that user.
// What is odd about it makes a kernel start the ordinary way, and costs time.
// Thread rule: the loop's.
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
  // The kernel's job, in a leaf of its own and about to read its connection file; or why there is
  // none. Called from the loop, once.
  using Then = std::function<void(Result<std::unique_ptr<Job>>)>;

  // What a kernel is to have; descriptors are borrowed.
  struct Order {
    std::string connection_file;
    int null = -1, output = -1, cwd = -1;
    Job::OnExit on_exit;
  };

  explicit Zygote(Core* core) : core_(*core) {}
  Zygote(const Zygote&) = delete;
  Zygote& operator=(const Zygote&) = delete;
  ~Zygote();

  // Whether kernels of this kind come from one.
  static bool Makes(const Kernelspec& spec);
  // Makes a kernel of such a kernelspec start by itself: sets `argv` to its command line, and
  // returns its standard input.
  static Result<UniqueFd> Launcher(const Kernelspec& spec, const std::string& connection_file,
                                   std::vector<std::string>* argv);
  // Starts it, or sees that it is there. kFailedPrecondition: kernels of this kind do not come from
  // one, there is little memory, or one has ended before its first kernel; kernels then start
  // the ordinary way.
  Status Prepare(const Kernelspec& spec, const Environment& env);
  // Prepare, and a kernel. `then` is not called if this fails, or after Forget.
  Result<Id> Fork(const Kernelspec& spec, const Environment& env, Order order, Then then);
  void Forget(Id id);

 private:
  // A kernel that has been ordered and has not said a word.
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
  std::vector<std::string> argv_, env_;  // of the process, without its modules
  std::unique_ptr<Job> job_;             // null: there is none
  UniqueFd control_;
  bool proven_ = false, given_up_ = false;
  Id next_ = 1;
  std::map<Id, Birth> births_;
};

}  // namespace atl::execd
