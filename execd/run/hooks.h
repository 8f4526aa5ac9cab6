// Programs that run beside the entrypoint: one before it, others on a schedule. They run as it does
// (user, environment, working directory), and what they print is among its output, where failures
// are told, too.
//
// Each has a leaf of its own: at its time limit everything that it has started is killed. One that
// still runs when its time comes again is left to it, so none runs twice at once. Thread rule: the
// loop's.
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
  // Both outlive it.
  Hooks(Core* core, Entrypoint* entrypoint) : core_(*core), entrypoint_(*entrypoint) {}
  Hooks(const Hooks&) = delete;
  Hooks& operator=(const Hooks&) = delete;

  // Runs it to its end; `done`, once, gets why it was no success.
  void RunFirst(wire::Hook hook, std::function<void(Status)> done);
  // From now on, until the entrypoint has ended. One of which the schedule is none is told of.
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
