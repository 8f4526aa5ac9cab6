// The launches under way (launch.h), each from the acquisition of its sandbox until the entrypoint
// is known to run, or until what was built is released; and what execd reports of the start.
//
// Thread rule: on the loop.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "runtime/base/guard.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/create/launch.h"
#include "runtime/sandbox/output/entrypoint_logs.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/state/machine.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/wire/start.h"

namespace atl::sandbox {

class Launches {
 public:
  // All outlive it.
  Launches(Loop& loop, EntrypointLogs& logs, Registry& registry, Machine& machine);
  Launches(const Launches&) = delete;
  Launches& operator=(const Launches&) = delete;

  // Replaces a launch that the sandbox may have.
  void Add(const Sandbox& sandbox, std::shared_ptr<Launch> launch);
  // Null: none is under way. It lives on while an answer may come, or its caller holds it.
  std::shared_ptr<Launch> Find(const Sandbox& sandbox) const;
  // The same, which is none any more.
  std::shared_ptr<Launch> Take(const Sandbox& sandbox);

  // Its sandbox runs, as far as is known: listens for execd's report of the entrypoint. One that
  // could not be started is kStartFailed, and the output of all others is followed from now on.
  void Watch(const Sandbox& sandbox);
  // Process 1 has ended, and may have said why before that: the two arrive on different sockets.
  // True: it had, and the sandbox has failed for that reason.
  bool EndByReport(Sandbox& sandbox);

  // A watcher of the machine: what an earlier start has said counts no more.
  void OnTransition(const Sandbox& sandbox, State before);

 private:
  void Reported(const std::string& host_id, const Result<wire::StartReport>& report);
  // The report has come: what follows it is output.
  void FollowOutput(const Sandbox& sandbox);
  void FailStart(Sandbox& sandbox);

  Loop& loop_;
  EntrypointLogs& logs_;
  Registry& registry_;
  Machine& machine_;
  std::unordered_map<const Sandbox*, std::shared_ptr<Launch>> all_;
  // Why an entrypoint cannot be run, as execd says; its output is still coming.
  std::unordered_map<const Sandbox*, std::string> failures_;
  const Guard guard_;
};

}  // namespace atl::sandbox
