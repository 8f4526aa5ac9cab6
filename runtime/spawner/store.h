// The spawner's part of the data directory, which nobody else can enter:
//
//   <data_dir>/store/         root, 0700
//     fs/                     kStoreIdBase: the tree that sandboxes see, id-mapped, in their builds
//       layers/<n>/           published layers;  <n>.partial: being extracted
//       uppers/s<slot>/{upper,work}
//       skeleton/             bottom layer of every root: what images may lack
//     volumes/<name>/         kStoreIdBase: named volumes, each mounted by itself
//     trash/                  what the janitor deletes
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/wire/plan.h"

namespace atl::spawner {

class Store {
 public:
  // Creates what is missing.
  static Result<Store> Open(const std::string& data_dir);

  int root() const { return root_.get(); }  // <data_dir>/store
  int tree() const { return tree_.get(); }  // its fs/
  const std::string& path() const { return path_; }

  bool HasLayer(wire::LayerId layer) const;
  // An empty directory owned by kStoreIdBase for the unpacker to fill. One that exists is an error.
  Result<UniqueFd> CreatePartialLayer(wire::LayerId layer) const;
  // Makes it durable and visible.
  Status PublishLayer(wire::LayerId layer) const;
  Result<std::vector<wire::LayerId>> Layers() const;

  // An empty directory of that name, durable. kAlreadyExists: there is one.
  Status MakeVolume(const std::string& name) const;
  // Makes it durable that one has come or gone.
  Status SyncVolumes() const;

  // upper and work directories of a slot.
  Status CreateUpper(uint32_t slot) const;

  // Paths relative to root(), for the janitor.
  static std::string LayerPath(wire::LayerId layer);
  static std::string PartialLayerPath(wire::LayerId layer);
  static std::string UpperPath(uint32_t slot);
  static std::string VolumeDirectory(const std::string& name);

 private:
  Store(UniqueFd root, UniqueFd tree, std::string path)
      : root_(std::move(root)), tree_(std::move(tree)), path_(std::move(path)) {}

  UniqueFd root_;
  UniqueFd tree_;
  std::string path_;
};

}  // namespace atl::spawner
