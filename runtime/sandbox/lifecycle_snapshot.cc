// Snapshots of sandboxes, as far as a sandbox's state decides about them.
#include <utility>

#include "runtime/sandbox/lifecycle.h"

namespace atl::sandbox {

Result<Snapshot> Lifecycle::TakeSnapshot(const std::string& id, const std::string& name) {
  if (stopping_) return Fail(Code::kUnavailable, "atolld is shutting down");
  ATOLL_ASSIGN(const Entry* entry, Visible(id));
  const Sandbox& sandbox = entry->sandbox;
  if (!IsLive(sandbox.state)) {
    return Fail(Code::kFailedPrecondition,
                "sandbox " + id + " is " + std::string(StateName(sandbox.state)) +
                    ": a snapshot is taken of one that runs or is paused");
  }
  const auto use = OpenRequest(id);
  auto taken = snapshots_.Take(sandbox, name, use);
  if (taken && use) use->Count();
  return taken;
}

void Lifecycle::ImportSnapshot(UniqueFd archive, std::string name, Snapshots::Check check,
                               Snapshots::Imported done) {
  snapshots_.Import(
      std::move(archive), std::move(name), std::move(check),
      [this, done = std::move(done),
       alive = std::weak_ptr(alive_)](const Result<Snapshot>& snapshot) {
        if (!snapshot && !alive.expired()) {
          images_.CollectLayers([this](wire::LayerId layer) { return LayerInUse(layer); });
        }
        done(snapshot);
      });
}

Status Lifecycle::RemoveSnapshot(const std::string& id) {
  for (const auto& [user, entry] : entries_) {
    if (entry.sandbox.spec.snapshot_id != id || !CountsForOrigin(entry.sandbox.state)) continue;
    return Fail(Code::kFailedPrecondition, "snapshot " + id + " is used by sandbox " + user +
                                               ", which was restored from it: delete that first");
  }
  ATOLL_TRY(snapshots_.Remove(id));
  images_.CollectLayers([this](wire::LayerId layer) { return LayerInUse(layer); });
  return {};
}

}  // namespace atl::sandbox
