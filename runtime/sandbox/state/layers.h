// Tracks which layers of the image store are in use: by sandboxes, by rollbacks and differences in
// flight, and by other registered users. The image store removes a layer that nobody uses.
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

  // `images` outlives this object.
  explicit Layers(images::ImageStore& images) : images_(images) {}
  Layers(const Layers&) = delete;
  Layers& operator=(const Layers&) = delete;

  // Registers another user: a layer is also in use if `uses` returns true for it.
  void AddUser(Uses uses) { users_.push_back(std::move(uses)); }

  // Pair each Hold with one Drop of the same layers. Drop collects unused layers.
  void Hold(const std::vector<wire::LayerId>& layers);
  void Drop(const std::vector<wire::LayerId>& layers);
  // Forgets all holds, because nothing of what they protected exists any more.
  void Clear() { held_.clear(); }

  // Returns true if a user holds the layer. The image store asks it.
  bool InUse(wire::LayerId layer) const;
  // Has the image store remove unused layers.
  void Collect();

 private:
  images::ImageStore& images_;
  std::unordered_map<wire::LayerId, uint32_t> held_;
  std::vector<Uses> users_;
};

}  // namespace atl::sandbox
