// Reports under `layers` in /health which images and snapshots have lost layers. That happens if
// somebody removes files of the store, or restores a database without the matching store. Without
// this report, only a failed create of such an image would show it.
//
// Thread rule: on the loop. The spawner checks a few hundred directories at a time.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "images/image_store.h"
#include "runtime/base/guard.h"
#include "runtime/base/health.h"
#include "runtime/base/loop.h"
#include "runtime/sandbox/snapshots/snapshots.h"
#include "runtime/wire/request.h"

namespace atl::launch {
class SpawnerClient;
}

namespace atl::sandbox {

class LayerWatch {
 public:
  // All arguments outlive this object. Checks now, and every minute.
  LayerWatch(Loop& loop, Health& health, launch::SpawnerClient& spawner,
             const images::ImageStore& images, const Snapshots& snapshots);
  LayerWatch(const LayerWatch&) = delete;
  LayerWatch& operator=(const LayerWatch&) = delete;
  ~LayerWatch();

  // Returns the id of the store that has the layers. kFailedPrecondition: layers are missing; the
  // message names them.
  void FindStore(std::function<void(Result<std::string>)> done);

 private:
  struct Look;
  void LookAgain();
  void Ask(const std::shared_ptr<Look>& look);
  std::string TroubleOf(const std::set<wire::LayerId>& missing) const;

  Loop& loop_;
  Health& health_;
  launch::SpawnerClient& spawner_;
  const images::ImageStore& images_;
  const Snapshots& snapshots_;
  Loop::Id timer_ = 0;
  const Guard guard_;
};

}  // namespace atl::sandbox
