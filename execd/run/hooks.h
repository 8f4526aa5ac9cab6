// Programs that run beside the entrypoint: one before it, and others on a schedule. Hooks run with
// the user, environment and working directory of the entrypoint. Their output and their failures
// appear in the entrypoint's output.
//
// Each hook has a leaf of its own. At its time limit, everything that it has started is killed. A
// hook that is still running at its next time is not started again, so no hook runs twice at once.
//
// Thread rule: the event loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "execd/core/core.h"
#include "execd/run/entrypoint.h"
#include "execd/run/job.h"
#include "runtime/base/schedule.h"
#include "runtime/wire/start.h"

namespace atl::execd {

class Hooks {
 public:
  // Both are borrowed and must outlive the object.
  Hooks(Core* core, Entrypoint* entrypoint) : core_(*core), entrypoint_(*entrypoint) {}
  Hooks(const Hooks&) = delete;
  Hooks& operator=(const Hooks&) = delete;

  // Runs a hook to its end. Calls `done` once, with OK or with the reason of its failure.
  void RunFirst(wire::Hook hook, std::function<void(Status)> done);
  // Runs hooks on their schedules from now on, until the entrypoint has ended. A hook with an
  // invalid schedule is reported and not run.
  void Schedule(std::vector<wire::Hook> hooks);

 private:
  struct Periodic {
    wire::Hook hook;
    atl::Schedule schedule;
    int64_t due = 0;  // Unix seconds
    std::unique_ptr<Job> job;
  };
  Result<std::unique_ptr<Job>> Start(const wire::Hook& hook, Job::OnExit on_exit);
  void Await(Periodic* periodic);
  void Run(Periodic* periodic);
  void Complain(const wire::Hook& hook, const std::string& what);

  Core& core_;
  Entrypoint& entrypoint_;
  std::unique_ptr<Job> first_;
  std::vector<std::unique_ptr<Periodic>> periodic_;
};

}  // namespace atl::execd
