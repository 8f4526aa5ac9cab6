#include "runtime/sandbox/state/layers.h"

#include <algorithm>

namespace atl::sandbox {

void Layers::Hold(const std::vector<wire::LayerId>& layers) {
  for (const wire::LayerId layer : layers) ++held_[layer];
}

void Layers::Drop(const std::vector<wire::LayerId>& layers) {
  for (const wire::LayerId layer : layers) {
    const auto found = held_.find(layer);
    if (found != held_.end() && --found->second == 0) held_.erase(found);
  }
  Collect();
}

bool Layers::InUse(wire::LayerId layer) const {
  return held_.contains(layer) || std::any_of(users_.begin(), users_.end(),
                                              [layer](const Uses& uses) { return uses(layer); });
}

void Layers::Collect() {
  images_.CollectLayers([this](wire::LayerId layer) { return InUse(layer); });
}

}  // namespace atl::sandbox
