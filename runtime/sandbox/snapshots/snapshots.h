// Snapshots: the files that a sandbox had written at a moment, as layers for other sandboxes.
//
// The spawner copies the upper directory of the source into a layer (spawner/copies.h). A restore
// is a create with that layer on top of the source's layers. Images, sandboxes and snapshots all
// count as users of layers. So a deleted snapshot leaves its layer to snapshots that were taken of
// sandboxes restored from it, and a removed image leaves its layers in the same way.
//
// Steps of a snapshot. If the daemon dies between two steps, the next daemon undoes or continues
// them:
//   1. reserve a layer number (the next start frees it)
//   2. record the snapshot as Creating
//   3. copy, sync and publish the files
//   4. keep the layer
//   5. record the snapshot as Ready
// An imported snapshot is imported like an image and then recorded as Ready. Until then nobody uses
// its layers, and the next start collects them.
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
#include "runtime/sandbox/state/quotas.h"
#include "runtime/sandbox/store/snapshot_store.h"
#include "runtime/tenants/caller.h"
#include "runtime/wire/reply.h"

namespace atl::launch {
class SpawnerClient;
}

namespace atl::sandbox {

struct SnapshotStats {
  uint64_t taken = 0;
  uint64_t failed = 0;
  uint64_t held_micros = 0;  // total time for which sandboxes were frozen
};

class Snapshots {
 public:
  struct Config {
    uint64_t max_count = 1000;  // limit of all snapshots, whatever their state
    uint64_t max_bytes = 0;     // limit of all snapshots together; 0: the size of the store
    std::vector<std::string> private_directories;  // see Sandboxes::Settings
  };
  // All arguments outlive this object. Loads the records and ends the snapshots that an earlier
  // daemon had begun: Ready if all its files are on the disk, else Failed.
  static Result<std::unique_ptr<Snapshots>> Open(const Clock& clock, launch::SpawnerClient& spawner,
                                                 images::ImageStore& images, SnapshotStore& store,
                                                 Config config);
  Snapshots(const Snapshots&) = delete;
  Snapshots& operator=(const Snapshots&) = delete;

  // Sets the check whether the owner, and the caller's key, may have another snapshot.
  using Quota = std::function<Status(const std::string& owner, const tenants::Caller& caller)>;
  void SetQuota(Quota quota) { quota_ = std::move(quota); }
  // Sets the function to call when snapshots have become ready, or are gone.
  void OnChange(std::function<void()> changed) { changed_ = std::move(changed); }
  // Returns the bytes of the layers of all ready snapshots, by owner.
  std::map<std::string, uint64_t> BytesByOwner() const;
  // Adds the snapshots of the tenant, whatever their state.
  void CountOwned(const std::string& tenant, Owned* owned) const;

  // Takes a snapshot of a live sandbox, whose owner it gets. Records it as Creating, and as Ready
  // or Failed later. kFailedPrecondition: a snapshot of the sandbox is in flight, or there would be
  // too many layers. kResourceExhausted, ENOSPC: a limit of the operator, or a full disk.
  // QuotaError.
  Result<Snapshot> Take(const tenants::Caller& caller, const Sandbox& source,
                        const std::string& name, std::shared_ptr<const void> use);
  // Imports a snapshot that a daemon has exported (snapshot_facts.h) as a new Ready one, which the
  // caller owns. `name`
  // empty: it keeps its own name. `check` may refuse it by its description, and runs on another
  // thread. kResourceExhausted, ENOSPC: see Take. A failure may leave layers for the next
  // collection.
  using Check = std::function<Status(const Snapshot&)>;
  using Imported = std::function<void(const Result<Snapshot>&)>;
  void Import(const tenants::Caller& caller, UniqueFd archive, std::string name, Check check,
              Imported done);
  // kResourceExhausted, ENOSPC: the number of snapshots has reached the operator's limit, or the
  // owner has to leave the rest to others (fair_places.h).
  Status CheckCount(const std::string& owner) const;
  // Returns null for an unknown id, and for a snapshot that the caller does not see. Valid until
  // the next call.
  const Snapshot* Find(const tenants::Caller& caller, const std::string& id) const;
  // Returns all snapshots that the caller sees, in no order.
  std::vector<const Snapshot*> All(const tenants::Caller& caller) const;
  // Returns a snapshot that can be restored. kNotFound: Find returns null. kFailedPrecondition: it
  // is not ready. kInvalidArgument: the store has lost one of its layers.
  Result<Snapshot> Usable(const tenants::Caller& caller, const std::string& id) const;
  // Removes the snapshot. The next collection removes its layers. kNotFound: Find returns
  // null. kFailedPrecondition: it is being taken.
  Status Remove(const tenants::Caller& caller, const std::string& id);

  // Copies what a sandbox has written, as it is at one moment, into a layer. The layer has no user:
  // the caller registers its own use before. Calls `done` later: success means that the layer is
  // published and kept, and has so many bytes; after an error nothing is left of it.
  struct Copy {
    std::string sandbox;
    wire::LayerId layer = 0;  // reserved by the caller
    std::string name;         // unique among all layers
    bool lasting = true;      // the copy survives power loss
    std::function<void(const Result<uint64_t>& bytes)> done;
  };
  void Start(Copy copy);
  // kResourceExhausted, ENOSPC: the files that sandboxes have written have reached the operator's
  // limit.
  Status CheckBytes() const;

  // Returns true if a snapshot uses the layer. The image store asks it.
  bool LayerInUse(wire::LayerId layer) const { return layer_users_.contains(layer); }
  // Returns the ids of snapshots that need the image and that the caller sees, in order.
  std::vector<std::string> UsersOf(const tenants::Caller& caller, const images::Image& image) const;

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
  Status CheckQuota(const std::string& owner, const tenants::Caller& caller) const;
  Result<Snapshot> Admit(const tenants::Caller& caller, const images::Image& image,
                         const std::string& name);
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
  Quota quota_;
  std::function<void()> changed_ = [] {};
  std::map<std::string, Snapshot> snapshots_;
  std::map<wire::LayerId, uint32_t> layer_users_;
  std::deque<Copy> waiting_;
  size_t copying_ = 0;
  SnapshotStats stats_;
  // Answers of the spawner may come after this object is gone.
  const Guard guard_;
};

}  // namespace atl::sandbox
