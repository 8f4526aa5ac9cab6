// A program that execd runs for itself and whose success it waits for: without input, and of its
// output the last KiB is kept, which says why it failed.
//
// Thread rule: the loop's.
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

  // `core` outlives it.
  explicit CheckedRun(Core* core) : core_(*core) {}
  CheckedRun(const CheckedRun&) = delete;
  CheckedRun& operator=(const CheckedRun&) = delete;
  ~CheckedRun() { End(); }

  // `spec`'s stdio is filled in here. `done` is called once, from the loop, when the program has
  // ended, and may start the next; never if this fails, or after End. kDeadlineExceeded: it was
  // killed after `timeout_us` (0: it may take for ever). kInternal: it failed.
  Status Start(SpawnSpec spec, int64_t timeout_us, Done done);
  // Of the one that runs, what it leaves behind is killed, too.
  void EndWhole() { job_->EndWhole(); }
  // One that runs is killed.
  void End();

 private:
  void Ended(const JobExit& exit, Done done);

  Core& core_;
  std::unique_ptr<Job> job_;
  std::unique_ptr<OutputPipe> pipe_;
  std::string output_;  // its end
  // What is posted may come when this is gone, or has been ended.
  std::shared_ptr<const bool> alive_;
};

}  // namespace atl::execd
