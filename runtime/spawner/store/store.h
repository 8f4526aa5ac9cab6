// The spawner's part of the data directory, which nobody else can enter:
//
//   <data_dir>/store/         root, 0700; may be a mount of its own, see store_image.h
//     fs/                     kStoreIdBase: the tree that sandboxes see, id-mapped, in their builds
//       layers/<n>/           published layers;  <n>.partial: being extracted
//       uppers/s<slot>/{upper,work}
//       uppers/s<slot>/o<i>/    what is open of the bucket that is its volume i
//       uppers/s<slot>/x<n>/<i>/{upper,work}   of overlay i of its session n
//       skeleton/             bottom layer of every root: what images may lack
//     volumes/<name>/         kStoreIdBase: named volumes, each mounted by itself
//     trash/                  what the janitor deletes
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/wire/layer.h"

namespace atl::spawner {

// Relative to a store's fs/; see Store::id.
inline constexpr char kStoreIdFile[] = "id";

class Store {
 public:
  // Creates what is missing, and holds a shared flock(2) on root() while it lives.
  static Result<Store> Open(const std::string& data_dir);

  int root() const { return root_.get(); }  // <data_dir>/store
  int tree() const { return tree_.get(); }  // its fs/
  const std::string& path() const { return path_; }
  // 32 hex digits, made with the store. A copy of the store has the same id: `atolld restore`
  // compares it with that of a backup.
  const std::string& id() const { return id_; }

  bool HasLayer(wire::LayerId layer) const;
  // Creates an empty directory owned by kStoreIdBase for the unpacker to fill. An existing one is
  // an error.
  Result<UniqueFd> CreatePartialLayer(wire::LayerId layer) const;
  // Opens a published layer. kNotFound: there is none.
  Result<UniqueFd> OpenLayer(wire::LayerId layer) const;
  // Makes the layer visible, and durable if it is to be `lasting`.
  Status PublishLayer(wire::LayerId layer, bool lasting) const;

  // Makes an empty, durable volume of that name, with a disk limit (0: none). kAlreadyExists: there
  // is one. kFailedPrecondition: a limit is asked for, and the store has no quota to keep it with.
  Status MakeVolume(uint32_t instance, const std::string& name, uint64_t disk_bytes) const;
  // Makes it durable that a volume was made or removed.
  Status SyncVolumes() const;

  // Returns whether the store can keep disk limits: its file system enforces project quotas.
  bool HasQuota() const { return has_quota_; }
  // Creates the upper and work directories of a slot of this instance, with a disk limit (0: none)
  // on both together. kFailedPrecondition: a limit is asked for, and the store has no quota to keep
  // it with.
  Status CreateUpper(uint32_t instance, uint32_t slot, uint64_t disk_bytes) const;
  // Returns the slots that have an upper directory.
  Result<std::vector<uint32_t>> Uppers() const;
  // Changes the limit of an existing upper.
  Status LimitUpper(uint32_t slot, uint64_t disk_bytes) const;
  // Returns the bytes that are charged to the upper's project; 0 if the store has no quota.
  uint64_t UpperBytes(uint32_t slot) const;
  // Returns the bytes that are charged to the projects of all named volumes; 0 without quotas.
  uint64_t VolumeBytes() const;

  // Creates upper and work directories for so many overlays of a sandbox's session: 0/, 1/, … They
  // belong to the sandbox's project. kAlreadyExists: that session has some.
  Status CreateSessionUppers(uint32_t slot, uint32_t session, size_t overlays) const;

  // Creates the directory that the server of a bucket, which runs as `user`, keeps open files in.
  // It belongs to the sandbox's project and is removed with its upper.
  Status CreateBucketScratch(uint32_t slot, uint32_t index, uid_t user) const;

  // Paths relative to root(), for the janitor.
  static std::string BucketPath(uint32_t slot, uint32_t index);
  static std::string SessionPath(uint32_t slot, uint32_t session);
  static std::string LayerPath(wire::LayerId layer) { return "fs/layers/" + std::to_string(layer); }
  static std::string PartialLayerPath(wire::LayerId layer);
  static std::string UpperPath(uint32_t slot);
  static std::string VolumeDirectory(const std::string& name) { return "volumes/" + name; }

 private:
  Store(UniqueFd root, UniqueFd tree, std::string path, std::string id, bool has_quota)
      : root_(std::move(root)),
        tree_(std::move(tree)),
        path_(std::move(path)),
        id_(std::move(id)),
        has_quota_(has_quota) {}

  UniqueFd root_;
  UniqueFd tree_;
  std::string path_;
  std::string id_;
  bool has_quota_;
};

}  // namespace atl::spawner
