// Destroys what the spawner has, or may have, and no record names, and gives the slot back behind
// that: leftovers of an earlier daemon, members of pools that nobody claims, former selves of
// sandboxes that were rolled back.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/sandbox/create/slot_pool.h"
#include "runtime/sandbox/state/layers.h"
#include "runtime/sandbox/state/registry.h"

namespace atl::launch {
class SpawnerClient;
}

namespace atl::sandbox {

class Orphans {
 public:
  // All outlive it.
  Orphans(launch::SpawnerClient& spawner, SlotPool& slots, const Registry& registry, Layers& layers)
      : spawner_(spawner), slots_(slots), registry_(registry), layers_(layers) {}
  Orphans(const Orphans&) = delete;
  Orphans& operator=(const Orphans&) = delete;

  // Called when one has gone, or cannot be destroyed: then its processes have been killed.
  void OnGone(std::function<void()> gone) { gone_ = std::move(gone); }

  // `slot` 0: it has none. One that cannot be destroyed is found again by the next comparison.
  void Destroy(const std::string& host_id, uint32_t slot);
  // There is another spawner: what was asked of the last one is answered, if at all, by its loss.
  void Forget() { all_.clear(); }

  bool Has(const std::string& host_id) const { return all_.contains(host_id); }
  bool empty() const { return all_.empty(); }
  std::vector<uint32_t> Slots() const;

 private:
  void Destroyed(const std::string& host_id, uint32_t slot, const Status& status);

  launch::SpawnerClient& spawner_;
  SlotPool& slots_;
  const Registry& registry_;
  Layers& layers_;
  std::function<void()> gone_;
  std::map<std::string, uint32_t> all_;  // slots of those that are being destroyed, by host id
};

}  // namespace atl::sandbox
