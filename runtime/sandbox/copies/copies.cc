#include "runtime/sandbox/copies/copies.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "images/report.h"
#include "runtime/base/private_paths.h"
#include "runtime/launch/spawner_client.h"

namespace atl::sandbox {

Result<Snapshot> Copies::TakeSnapshot(const tenants::Caller& caller, const std::string& id,
                                      const std::string& name) {
  if (parts_.attempts.stopping()) return Fail(ShuttingDown());
  ATOLL_ASSIGN(const Sandbox* found, parts_.registry.Get(caller, id));
  const Sandbox& sandbox = *found;
  ATOLL_TRY(CheckStands(sandbox.spec));
  if (!IsLive(sandbox.state)) {
    return Fail(Code::kFailedPrecondition,
                "sandbox " + id + " is " + std::string(StateName(sandbox.state)) +
                    ": only a running or paused sandbox can be snapshotted");
  }
  const auto use = parts_.pauses.OpenRequest(sandbox);
  auto taken = parts_.snapshots.Take(caller, sandbox, name, use);
  if (taken && use) use->Count();
  return taken;
}

void Copies::ImportSnapshot(const tenants::Caller& caller, UniqueFd archive, std::string name,
                            Snapshots::Check check, Snapshots::Imported done) {
  parts_.snapshots.Import(
      caller, std::move(archive), std::move(name), std::move(check),
      [this, done = std::move(done), alive = guard_.watch()](const Result<Snapshot>& snapshot) {
        if (!snapshot && !alive.expired()) parts_.layers.Collect();
        done(snapshot);
      });
}

Status Copies::RemoveSnapshot(const tenants::Caller& caller, const std::string& id) {
  const bool is_there = parts_.snapshots.Find(caller, id) != nullptr;
  for (const auto& [user, sandbox] : parts_.registry) {
    if (!is_there || sandbox.spec.snapshot_id != id || !CountsForOrigin(sandbox.state)) continue;
    const std::string whose = MaySee(caller, sandbox) ? "sandbox " + user : "a sandbox of the host";
    return Fail(Code::kFailedPrecondition, "snapshot " + id + " is used by " + whose +
                                               ", which was restored from it: delete that first");
  }
  ATOLL_TRY(parts_.snapshots.Remove(caller, id));
  parts_.layers.Collect();
  return {};
}

void Copies::Diff(const tenants::Caller& caller, const std::string& id, const std::string& snapshot,
                  bool archive, UniqueFd out, std::function<void(Status)> done) {
  const auto found = parts_.registry.Get(caller, id);
  if (!found) return done(Fail(found.error()));
  const Sandbox& sandbox = **found;
  if (!IsLive(sandbox.state)) {
    return done(Fail(Code::kFailedPrecondition,
                     "sandbox " + id + " is " + std::string(StateName(sandbox.state)) +
                         ": only a running or paused sandbox can be compared"));
  }
  if (diffs_.contains(id)) {
    return done(Fail(Code::kUnavailable, "sandbox " + id +
                                             " is being compared for another client; try again "
                                             "when that has ended"));
  }
  if (!places_.HasRoomFor(sandbox.tenant)) {
    return done(
        Fail(Code::kUnavailable,
             sandbox.tenant.empty()
                 ? std::to_string(kMaxDiffs) + " sandboxes are being compared; try again later"
                 : "too many sandboxes are being compared; try again later"));
  }
  wire::DiffUpper asked{HostId(sandbox), {}, archive, std::move(out)};
  if (snapshot.empty()) {
    // Layers that snapshots have added lie above the layers of the image.
    const auto image =
        std::find_if(sandbox.layers.begin(), sandbox.layers.end(),
                     [this](wire::LayerId layer) { return !parts_.images.IsWritten(layer); });
    asked.against.assign(image, sandbox.layers.end());
  } else {
    auto usable = parts_.snapshots.Usable(caller, snapshot);
    if (!usable) return done(Fail(std::move(usable).error()));
    if (usable->image_digest != sandbox.image_digest) {
      return done(Fail(Code::kFailedPrecondition,
                       "snapshot " + snapshot + " is of image " + usable->image + ", sandbox " +
                           id + " of " + sandbox.spec.image +
                           ": nearly everything would differ, compare those of one image"));
    }
    asked.against = std::move(usable->layers);
  }
  // If the snapshot is deleted meanwhile, its layers stay until the difference is done.
  diffs_.emplace(id, places_.Take(sandbox.tenant));
  parts_.layers.Hold(asked.against);
  std::vector<wire::LayerId> held = asked.against;
  parts_.spawner.Ask(std::move(asked), [this, id, held = std::move(held), done = std::move(done),
                                        use = parts_.pauses.Use(sandbox), alive = guard_.watch()](
                                           const Result<wire::Unpacked>& told) {
    if (!alive.expired()) {
      diffs_.erase(id);
      parts_.layers.Drop(held);
    }
    if (told) return done({});
    // The error text is untrusted: it comes from a process that has read the sandbox's files.
    const Error error = images::DecodeUnpackError(told.error());
    done(Fail(Error(
        error.code(),
        alive.expired() ? error.message() : WithoutPaths(error.message(), private_directories_),
        error.error_number())));
  });
}

void Copies::MeasureDisk(const tenants::Caller& caller, const std::string& id,
                         std::function<void(Result<wire::DiskUse>)> done) {
  const auto found = parts_.registry.Get(caller, id);
  if (!found) return done(Fail(found.error()));
  const Sandbox& sandbox = **found;
  if (!IsLive(sandbox.state)) {
    return done(Fail(Code::kFailedPrecondition,
                     "sandbox " + id + " is " + std::string(StateName(sandbox.state)) +
                         ": only a running or paused sandbox has files"));
  }
  parts_.spawner.Ask(wire::MeasureSandbox{HostId(sandbox)}, std::move(done));
}

}  // namespace atl::sandbox
