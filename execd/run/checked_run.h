// A program that execd runs for itself, and whose success it waits for. It gets no input. execd
// keeps the last KiB of its output to explain a failure.
//
// Thread rule: the event loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "execd/core/core.h"
#include "execd/run/job.h"
#include "execd/run/output.h"
#include "runtime/base/result.h"

namespace atl::execd {

class CheckedRun {
 public:
  using Done = std::function<void(const Status&)>;

  // `core` is borrowed and must outlive the object.
  explicit CheckedRun(Core* core) : core_(*core) {}
  CheckedRun(const CheckedRun&) = delete;
  CheckedRun& operator=(const CheckedRun&) = delete;
  ~CheckedRun() { End(); }

  // Starts a program; the stdio of `spec` is filled in here. Calls `done` once, from the loop, when
  // the program has ended. `done` may start the next program. `done` is not called if Start fails,
  // nor after End. kDeadlineExceeded: the program was killed after `timeout_us` (0: no limit).
  // kInternal: the program failed.
  Status Start(SpawnSpec spec, int64_t timeout_us, Done done);
  // Also kills what the running program leaves behind when it ends.
  void EndWhole() { job_->EndWhole(); }
  // Kills the running program, if there is one.
  void End();

 private:
  void Ended(const JobExit& exit, Done done);

  Core& core_;
  std::unique_ptr<Job> job_;
  std::unique_ptr<OutputPipe> pipe_;
  std::string output_;  // the end of the output
  // Guards posted callbacks, which may run after End or after the destructor.
  std::shared_ptr<const bool> alive_;
};

}  // namespace atl::execd
