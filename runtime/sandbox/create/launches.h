// The launches in flight (launch.h), each from the acquisition of its sandbox's resources until the
// entrypoint is known to run, or until the build is released. Handles execd's reports of starts.
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
  // All arguments outlive this object.
  Launches(Loop& loop, EntrypointLogs& logs, Registry& registry, Machine& machine);
  Launches(const Launches&) = delete;
  Launches& operator=(const Launches&) = delete;

  // Replaces an earlier launch of the sandbox.
  void Add(const Sandbox& sandbox, std::shared_ptr<Launch> launch);
  // Returns the sandbox's launch; null if none is in flight. The launch lives while an answer may
  // come, or the caller holds it.
  std::shared_ptr<Launch> Find(const Sandbox& sandbox) const;
  // Like Find, and removes the launch.
  std::shared_ptr<Launch> Take(const Sandbox& sandbox);

  // Waits for execd's report about the entrypoint of a running sandbox. Applies kStartFailed if the
  // entrypoint could not be started; otherwise follows its output.
  void Watch(const Sandbox& sandbox);
  // Call when process 1 has ended. The end and execd's report arrive on different sockets, so the
  // report may already be waiting. Returns true if the report gave the reason: the sandbox has then
  // failed for that reason.
  bool EndByReport(Sandbox& sandbox);

  // A watcher of the machine: discards the report of an earlier start.
  void OnTransition(const Sandbox& sandbox, State before);

 private:
  void Reported(const std::string& host_id, const Result<wire::StartReport>& report);
  // Call after the report: the following bytes are output.
  void FollowOutput(const Sandbox& sandbox);
  void FailStart(Sandbox& sandbox);

  Loop& loop_;
  EntrypointLogs& logs_;
  Registry& registry_;
  Machine& machine_;
  std::unordered_map<const Sandbox*, std::shared_ptr<Launch>> all_;
  // Errors of entrypoints that execd could not start. Their output is still coming.
  std::unordered_map<const Sandbox*, std::string> failures_;
  const Guard guard_;
};

}  // namespace atl::sandbox
