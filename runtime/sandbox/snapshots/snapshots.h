// Snapshots: what sandboxes had written at a moment, as layers that others can be made of.
//
// The upper directory of the source is copied into a layer of its own (spawner/copies.h); a restore
// is a create whose layers are that one and those of the source. So nothing is counted but who has
// a layer: images, sandboxes and snapshots alike. A snapshot that is deleted leaves its layer to
// those that were taken of sandboxes restored from it; an image that is removed leaves its layers
// likewise.
//
// Steps of one, each of which a death at any moment leaves as it was or carries on from:
//   layer number reserved (it goes at the next start)  →  recorded as Creating  →  copied, synced,
//   published  →  layer kept  →  recorded as Ready
// One that comes from elsewhere is an import like an image's, and then recorded as Ready: until
// then its layers are nobody's, and the next start collects them.
//
// Thread rule: on the loop; nothing blocks but the writes of the two stores.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "images/image_store.h"
#include "runtime/base/clock.h"
#include "runtime/base/guard.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/store/snapshot_store.h"
#include "runtime/wire/reply.h"

namespace atl::launch {
class SpawnerClient;
}

namespace atl::sandbox {

struct SnapshotStats {
  uint64_t taken = 0;
  uint64_t failed = 0;
  uint64_t held_micros = 0;  // that sandboxes were made to stand still, all together
};

class Snapshots {
 public:
  struct Config {
    uint64_t max_count = 1000;                     // of all, whatever their state
    uint64_t max_bytes = 0;                        // of all together; 0: as much as the store has
    std::vector<std::string> private_directories;  // see Sandboxes::Settings
  };
  // All parts outlive it. Loads the records, and ends what an earlier daemon had begun: what is
  // whole on the disk is Ready, the rest Failed.
  static Result<std::unique_ptr<Snapshots>> Open(const Clock& clock, launch::SpawnerClient& spawner,
                                                 images::ImageStore& images, SnapshotStore& store,
                                                 Config config);
  Snapshots(const Snapshots&) = delete;
  Snapshots& operator=(const Snapshots&) = delete;

  // Of a sandbox that lives: recorded as Creating, and Ready or Failed later. kFailedPrecondition:
  // one of it is being taken, or its layers would be too many. kResourceExhausted, ENOSPC: a bound
  // of the operator, or a full disk.
  Result<Snapshot> Take(const Sandbox& source, const std::string& name,
                        std::shared_ptr<const void> use);
  // Takes in what another daemon has exported (snapshot_facts.h), as a new one that is Ready; its
  // own name if `name` is empty. `check`, on another thread, refuses by what it says of itself.
  // kResourceExhausted, ENOSPC: as Take. After a failure layers may be left for the next
  // collection.
  using Check = std::function<Status(const Snapshot&)>;
  using Imported = std::function<void(const Result<Snapshot>&)>;
  void Import(UniqueFd archive, std::string name, Check check, Imported done);
  // kResourceExhausted, ENOSPC: there are as many as the operator allows.
  Status CheckCount() const;
  // Null for the unknown. Valid until the next call.
  const Snapshot* Find(const std::string& id) const;
  // In no order.
  std::vector<const Snapshot*> All() const;
  // One whose files can be had. kNotFound; kFailedPrecondition: it is not ready; kInvalidArgument:
  // something that it needs is gone from the store.
  Result<Snapshot> Usable(const std::string& id) const;
  // Forgets it; its layers are for the next collection. kNotFound; kFailedPrecondition: it is being
  // taken.
  Status Remove(const std::string& id);

  // A layer of what a sandbox has written, as it stands at one moment. What comes of it is
  // nobody's: whoever asks counts it as in use before. `done`, later: it is published and kept,
  // with so many bytes, or nothing of it is left.
  struct Copy {
    std::string sandbox;
    wire::LayerId layer = 0;  // reserved
    std::string name;         // among all layers
    bool lasting = true;      // it survives the loss of power
    std::function<void(const Result<uint64_t>& bytes)> done;
  };
  void Start(Copy copy);
  // kResourceExhausted, ENOSPC: what sandboxes have written takes all that the operator allows.
  Status CheckBytes() const;

  // For images::ImageStore.
  bool LayerInUse(wire::LayerId layer) const { return layer_users_.contains(layer); }
  // Ids of those that need the image, in order.
  std::vector<std::string> UsersOf(const images::Image& image) const;

  const SnapshotStats& stats() const { return stats_; }

 private:
  Snapshots(const Clock& clock, launch::SpawnerClient& spawner, images::ImageStore& images,
            SnapshotStore& store, Config config)
      : clock_(clock),
        spawner_(spawner),
        images_(images),
        store_(store),
        config_(std::move(config)) {}

  Status Load();
  Result<Snapshot> Admit(const images::Image& image, const std::string& name);
  uint64_t BytesLeft() const;
  void Hold(const Snapshot& snapshot);
  void Drop(const Snapshot& snapshot);
  void CopyNext();
  void Copied(const Copy& copy, const Result<wire::Copied>& copied);
  Status Keep(const Copy& copy, uint64_t bytes);
  void GiveUp(const Copy& copy, const Error& error);
  void Taken(const std::string& id, const Result<uint64_t>& bytes);
  Status Enter(Snapshot& snapshot, Snapshot::State state, const char* reason, std::string message);

  const Clock& clock_;
  launch::SpawnerClient& spawner_;
  images::ImageStore& images_;
  SnapshotStore& store_;
  const Config config_;
  std::map<std::string, Snapshot> snapshots_;
  std::map<wire::LayerId, uint32_t> layer_users_;
  std::deque<Copy> waiting_;
  size_t copying_ = 0;
  SnapshotStats stats_;
  // Answers of the spawner may come after we have gone.
  const Guard guard_;
};

}  // namespace atl::sandbox
