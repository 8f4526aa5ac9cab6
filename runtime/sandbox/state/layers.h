// Which layers of the store are in use: by sandboxes, by rollbacks and differences that are under
// way, and by whoever else says so. A layer that nobody uses is removed from the store.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "images/image_store.h"
#include "runtime/wire/layer.h"

namespace atl::sandbox {

class Layers {
 public:
  using Uses = std::function<bool(wire::LayerId layer)>;

  // The images outlive it.
  explicit Layers(images::ImageStore& images) : images_(images) {}
  Layers(const Layers&) = delete;
  Layers& operator=(const Layers&) = delete;

  // Also counts as used what `uses` returns true for.
  void AddUser(Uses uses) { users_.push_back(std::move(uses)); }

  // Each Hold is ended by one Drop of the same layers, which collects.
  void Hold(const std::vector<wire::LayerId>& layers);
  void Drop(const std::vector<wire::LayerId>& layers);
  // Everything that was held: nothing of it is there any more.
  void Clear() { held_.clear(); }

  // For images::ImageStore.
  bool InUse(wire::LayerId layer) const;
  // Has the store remove what nobody uses.
  void Collect();

 private:
  images::ImageStore& images_;
  std::unordered_map<wire::LayerId, uint32_t> held_;
  std::vector<Uses> users_;
};

}  // namespace atl::sandbox
