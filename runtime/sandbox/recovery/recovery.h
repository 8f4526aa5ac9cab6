// Plans the recovery: what a daemon does so that its records and the host agree again, at its
// start, after a replacement of the spawner, and periodically. PlanRecovery is a pure function; the
// reconciler carries out the plan.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/sandbox/record/sandbox.h"
#include "runtime/wire/reply.h"

namespace atl::sandbox {

struct RecoveryPlan {
  std::vector<std::string> adopted;         // running, and known to both
  std::vector<wire::SandboxRecord> exited;  // ended while no daemon watched
  std::vector<std::string> vanished;        // recorded as running, without a trace on the host
  std::vector<std::string> unfinished;  // recorded as being removed, or ended with slots still held
  std::vector<std::string> frozen;      // recorded as running, but frozen
  std::vector<std::string> thawed;      // recorded as paused, but running
  std::vector<wire::SandboxRecord> orphans;  // the spawner has it, but no record does
  std::vector<uint32_t> live_slots;          // slots whose links must stay for now
};

RecoveryPlan PlanRecovery(const std::vector<const Sandbox*>& recorded, const wire::Greeting& hello);

}  // namespace atl::sandbox
