// Takes things out of a sandbox that lives: snapshots, differences from its image or a snapshot,
// and the size of what it has written.
//
// Thread rule: on the loop.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "images/image_store.h"
#include "runtime/base/guard.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/sandbox/live/pauses.h"
#include "runtime/sandbox/record/caller.h"
#include "runtime/sandbox/snapshots/snapshots.h"
#include "runtime/sandbox/state/attempts.h"
#include "runtime/sandbox/state/layers.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/wire/reply.h"

namespace atl::launch {
class SpawnerClient;
}

namespace atl::sandbox {

class Copies {
 public:
  // All parts outlive it.
  struct Parts {
    launch::SpawnerClient& spawner;
    const images::ImageStore& images;
    Snapshots& snapshots;
    Registry& registry;
    Layers& layers;
    const Attempts& attempts;
    Pauses& pauses;
  };
  // `private_directories`: no path below them is told to a client (private_paths.h).
  Copies(const Parts& parts, std::vector<std::string> private_directories)
      : parts_(parts), private_directories_(std::move(private_directories)) {}
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  // Takes a snapshot of it, which is Creating when this returns; see Snapshots::Take. kNotFound;
  // kFailedPrecondition: it does not live, or has too many layers.
  Result<Snapshot> TakeSnapshot(const Caller& caller, const std::string& id,
                                const std::string& name);
  // See Snapshots::Import. Of a failure nothing is left.
  void ImportSnapshot(UniqueFd archive, std::string name, Snapshots::Check check,
                      Snapshots::Imported done);
  // Once it returns, it is not found any more; what nobody else needs of it is gone soon.
  // kFailedPrecondition: it is being taken, or a sandbox that was restored from it has not ended.
  Status RemoveSnapshot(const std::string& id);

  // Has what it holds otherwise than its image, or than that snapshot if `snapshot` is one, written
  // into `out`, a pipe, as it is found, while it goes on; see wire::DiffUpper. kNotFound;
  // kFailedPrecondition: it does not live, the snapshot is not ready or of another image.
  // kUnavailable: it, or as many as may be, are being compared.
  void Diff(const Caller& caller, const std::string& id, const std::string& snapshot, bool archive,
            UniqueFd out, std::function<void(Status)> done);

  // Measures what a sandbox has written to disk. kNotFound; kFailedPrecondition: it has ended, and
  // its files with it; kResourceExhausted: too many are being measured.
  void MeasureDisk(const Caller& caller, const std::string& id,
                   std::function<void(Result<wire::DiskUse>)> done);

 private:
  const Parts parts_;
  const std::vector<std::string> private_directories_;
  std::set<std::string> diffs_;  // sandboxes whose difference is under way
  const Guard guard_;
};

}  // namespace atl::sandbox
