// Destroys sandboxes that the spawner has, or may have, and that no record names, then releases
// their slots. Orphans are leftovers of an earlier daemon, pool members that nobody claims, and the
// former processes of rolled back sandboxes.
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
#include "runtime/wire/reply.h"

namespace atl::launch {
class SpawnerClient;
}

namespace atl::sandbox {

class Orphans {
 public:
  // All arguments outlive this object.
  Orphans(launch::SpawnerClient& spawner, SlotPool& slots, const Registry& registry, Layers& layers)
      : spawner_(spawner), slots_(slots), registry_(registry), layers_(layers) {}
  Orphans(const Orphans&) = delete;
  Orphans& operator=(const Orphans&) = delete;

  // Registers a function to call when an orphan is gone, or cannot be destroyed; in the second case
  // its processes have been killed.
  void OnGone(std::function<void()> gone) { gone_ = std::move(gone); }

  // Registers a function to call with the last reading of each orphan that is destroyed. The
  // spawner keeps these readings until they are settled.
  void OnDestroyed(std::function<void(const std::string&, const wire::EndReading&)> destroyed) {
    destroyed_ = std::move(destroyed);
  }

  // Destroys an orphan. `slot` 0: it has none. The next comparison finds an orphan again that could
  // not be destroyed. `done` is called with the spawner's answer, once the slot is released.
  using Done = std::function<void(const Status& destroyed)>;
  void Destroy(const std::string& host_id, uint32_t slot, Done done = {});
  // Forgets the orphans that are being destroyed. Call this when the daemon has connected to a new
  // spawner. The requests to the old spawner have failed with its connection, or are never
  // answered.
  void Forget() { all_.clear(); }

  bool Has(const std::string& host_id) const { return all_.contains(host_id); }
  bool empty() const { return all_.empty(); }
  std::vector<uint32_t> Slots() const;

 private:
  void Destroyed(const std::string& host_id, uint32_t slot,
                 const Result<wire::Destroyed>& destroyed, const Done& done);

  launch::SpawnerClient& spawner_;
  SlotPool& slots_;
  const Registry& registry_;
  Layers& layers_;
  std::function<void()> gone_;
  std::function<void(const std::string&, const wire::EndReading&)> destroyed_;
  std::map<std::string, uint32_t> all_;  // slots of orphans that are being destroyed, by host id
};

}  // namespace atl::sandbox
