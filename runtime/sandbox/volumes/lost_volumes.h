// Notes in a sandbox's history, once per volume, that the server process of its bucket has ended.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <set>
#include <unordered_map>

#include "runtime/base/clock.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/sandbox/store/history.h"
#include "runtime/wire/reply.h"

namespace atl::sandbox {

class LostVolumes {
 public:
  // All arguments outlive this object.
  LostVolumes(const Clock& clock, History& history, Registry& registry)
      : clock_(clock), history_(history), registry_(registry) {
    registry_.OnRemove([this](const Sandbox& sandbox) { told_.erase(&sandbox); });
  }
  LostVolumes(const LostVolumes&) = delete;
  LostVolumes& operator=(const LostVolumes&) = delete;

  // The spawner reports each loss repeatedly; only the first report has an effect.
  void OnLost(const wire::VolumeLost& lost);

 private:
  const Clock& clock_;
  History& history_;
  Registry& registry_;
  // Indices of the lost volumes in the sandbox's spec.
  std::unordered_map<const Sandbox*, std::set<uint32_t>> told_;
};

}  // namespace atl::sandbox
