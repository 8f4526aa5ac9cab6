// Copies data out of a live sandbox: snapshots, differences from its image or from a snapshot. Also
// measures its disk use.
//
// Thread rule: on the loop.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "images/image_store.h"
#include "runtime/base/fair_places.h"
#include "runtime/base/guard.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/sandbox/live/pauses.h"
#include "runtime/sandbox/snapshots/snapshots.h"
#include "runtime/sandbox/state/attempts.h"
#include "runtime/sandbox/state/layers.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/tenants/caller.h"
#include "runtime/wire/reply.h"

namespace atl::launch {
class SpawnerClient;
}

namespace atl::sandbox {

class Copies {
 public:
  // All parts outlive this object.
  struct Parts {
    launch::SpawnerClient& spawner;
    const images::ImageStore& images;
    Snapshots& snapshots;
    Registry& registry;
    Layers& layers;
    const Attempts& attempts;
    Pauses& pauses;
  };
  // `private_directories`: no message to a client names a path below them (private_paths.h).
  Copies(const Parts& parts, std::vector<std::string> private_directories)
      : parts_(parts), private_directories_(std::move(private_directories)) {}
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  // Begins a snapshot, which is Creating when this returns; see Snapshots::Take. kNotFound.
  // kFailedPrecondition: the sandbox does not live, or has too many layers.
  Result<Snapshot> TakeSnapshot(const tenants::Caller& caller, const std::string& id,
                                const std::string& name);
  // See Snapshots::Import. A failure leaves nothing behind.
  void ImportSnapshot(const tenants::Caller& caller, UniqueFd archive, std::string name,
                      Snapshots::Check check, Snapshots::Imported done);
  // Removes a snapshot. Once it returns, clients do not find the snapshot; layers without other
  // users are removed soon. kNotFound. kFailedPrecondition: it is being taken, or a sandbox
  // restored from it has not ended.
  Status RemoveSnapshot(const tenants::Caller& caller, const std::string& id);

  // Writes the difference between the sandbox's files and its image, or the snapshot `snapshot` if
  // not empty, into the pipe `out` while the sandbox runs; see wire::DiffUpper. kNotFound.
  // kFailedPrecondition: the sandbox does not live, or the snapshot is not ready or of another
  // image. kUnavailable: a difference of this sandbox is in flight, or the maximum number is.
  void Diff(const tenants::Caller& caller, const std::string& id, const std::string& snapshot,
            bool archive, UniqueFd out, std::function<void(Status)> done);

  // Measures what the sandbox has written to disk. kNotFound. kFailedPrecondition: it has ended,
  // and its files are gone. kResourceExhausted: too many measurements are in flight.
  void MeasureDisk(const tenants::Caller& caller, const std::string& id,
                   std::function<void(Result<wire::DiskUse>)> done);

 private:
  const Parts parts_;
  const std::vector<std::string> private_directories_;
  // A difference lasts as long as its client reads, so each sandbox may have only one in flight.
  // The limit is below the spawner's number of such processes (kMaxUnpacks), so imports continue.
  static constexpr size_t kMaxDiffs = 8;
  // Keyed by the sandboxes with a difference in flight.
  std::map<std::string, FairPlaces::Place> diffs_;
  FairPlaces places_{kMaxDiffs};
  const Guard guard_;
};

}  // namespace atl::sandbox
