// What a daemon has to do so that its records and the host agree again: one that starts, one whose
// spawner was replaced, and any one from time to time. A pure function of both; the reconciler
// carries it out.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/sandbox/record/sandbox.h"
#include "runtime/wire/reply.h"

namespace atl::sandbox {

struct RecoveryPlan {
  std::vector<std::string> adopted;          // running, and known to both
  std::vector<wire::SandboxRecord> exited;   // ended while nobody looked
  std::vector<std::string> vanished;         // recorded as running, no trace of it
  std::vector<std::string> unfinished;       // recorded as being removed, or with slots still held
  std::vector<std::string> frozen;           // recorded as running, and it stands still
  std::vector<std::string> thawed;           // recorded as paused, and it runs
  std::vector<wire::SandboxRecord> orphans;  // the spawner has it, no record does
  std::vector<uint32_t> live_slots;          // whose links must stay for now
};

RecoveryPlan PlanRecovery(const std::vector<const Sandbox*>& recorded, const wire::Greeting& hello);

}  // namespace atl::sandbox
