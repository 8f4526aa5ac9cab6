#include "runtime/sandbox/snapshots/snapshots.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "images/report.h"
#include "runtime/base/disk_full.h"
#include "runtime/base/fair_places.h"
#include "runtime/base/log.h"
#include "runtime/base/private_paths.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/launch/spawner_client.h"
#include "runtime/sandbox/record/environment.h"
#include "runtime/sandbox/snapshots/snapshot_facts.h"

namespace atl::sandbox {
namespace {

using Stage = Snapshot::State;

// Limit of parallel copies: more would only share the disk's bandwidth.
constexpr size_t kCopiesAtOnce = 2;

Error NoRoom(const std::string& what) {
  return Error(Code::kResourceExhausted, what + ": delete some", ENOSPC);
}

}  // namespace

Result<std::unique_ptr<Snapshots>> Snapshots::Open(const Clock& clock,
                                                   launch::SpawnerClient& spawner,
                                                   images::ImageStore& images, SnapshotStore& store,
                                                   Config config) {
  std::unique_ptr<Snapshots> snapshots(
      new Snapshots(clock, spawner, images, store, std::move(config)));
  ATOLL_TRY(snapshots->Load());
  return snapshots;
}

Status Snapshots::Load() {
  ATOLL_ASSIGN(std::vector<Snapshot> records, store_.Load());
  for (Snapshot& record : records) {
    const std::string id = record.id;
    Snapshot& snapshot = snapshots_[id] = std::move(record);
    if (snapshot.state == Stage::kCreating) {
      const bool whole = images_.HasLayer(snapshot.layers.front());
      const Status entered =
          whole ? Enter(snapshot, Stage::kReady, "snapshot_recovery_ready", "Snapshot is ready")
                : Enter(snapshot, Stage::kFailed, "snapshot_recovery_missing_image",
                        "the daemon ended while it was taken");
      if (!entered) {
        LogLine(LogLevel::kError, "cannot record a snapshot")
            .Add("snapshot", id)
            .Add(entered.error());
      }
    }
    if (snapshot.state != Stage::kFailed) Hold(snapshot);
  }
  return {};
}

void Snapshots::Hold(const Snapshot& snapshot) {
  for (const wire::LayerId layer : snapshot.layers) ++layer_users_[layer];
}

void Snapshots::Drop(const Snapshot& snapshot) {
  for (const wire::LayerId layer : snapshot.layers) {
    const auto found = layer_users_.find(layer);
    if (found != layer_users_.end() && --found->second == 0) layer_users_.erase(found);
  }
}

uint64_t Snapshots::BytesLeft() const {
  if (config_.max_bytes == 0) return INT64_MAX;
  const uint64_t used = images_.WrittenBytes();
  return used < config_.max_bytes ? config_.max_bytes - used : 0;
}

Status Snapshots::CheckCount(const std::string& owner) const {
  Owned owned;
  CountOwned(owner, &owned);
  if (FairPlaces::Allows(config_.max_count, owner, snapshots_.size(), owned.snapshots)) return {};
  if (!owner.empty()) {
    return Fail(
        NoRoom("tenant " + owner + " has used its share of this host's snapshots; delete one"));
  }
  return Fail(NoRoom("there are " + std::to_string(snapshots_.size()) +
                     " snapshots, as many as [snapshots] max_count allows"));
}

Status Snapshots::CheckBytes() const {
  if (BytesLeft() != 0) return {};
  return Fail(NoRoom("snapshots and forks already use the " + std::to_string(config_.max_bytes) +
                     " bytes that [snapshots] max_bytes allows"));
}

void Snapshots::CountOwned(const std::string& tenant, Owned* owned) const {
  for (const auto& [id, snapshot] : snapshots_) owned->snapshots += snapshot.tenant == tenant;
}

Status Snapshots::CheckQuota(const std::string& owner, const tenants::Caller& caller) const {
  return quota_ ? quota_(owner, caller) : Status();
}

Result<Snapshot> Snapshots::Take(const tenants::Caller& caller, const Sandbox& source,
                                 const std::string& name, std::shared_ptr<const void> use) {
  for (const auto& [id, other] : snapshots_) {
    if (other.sandbox_id != source.id || other.state != Stage::kCreating) continue;
    return Fail(Code::kFailedPrecondition, "snapshot " + id + " of sandbox " + source.id +
                                               " is being taken: wait until it is Ready");
  }
  if (source.layers.size() >= wire::kMaxLayers) {
    return Fail(Code::kFailedPrecondition,
                "sandbox " + source.id + " is made of " + std::to_string(source.layers.size()) +
                    " layers, including those of its snapshots; a root cannot have more");
  }
  ATOLL_TRY(CheckQuota(source.tenant, caller));
  ATOLL_TRY(CheckCount(source.tenant));
  ATOLL_TRY(CheckBytes());
  Snapshot snapshot;
  snapshot.id = NewSandboxId();
  snapshot.tenant = source.tenant;
  snapshot.sandbox_id = source.id;
  snapshot.name = name;
  snapshot.reason = "snapshot_accepted";
  snapshot.message = "Snapshot is being taken";
  snapshot.created_at_ms = snapshot.transition_at_ms = clock_.UnixMillis();
  snapshot.image = source.spec.image;
  snapshot.image_digest = source.image_digest;
  snapshot.config = source.config;
  snapshot.config.env = EnvironmentOf(source);
  snapshot.metadata = source.metadata;
  if (source.spec.unique_name) snapshot.metadata.erase(kName);
  ATOLL_ASSIGN(const wire::LayerId layer, images_.ReserveLayer());
  snapshot.layers = {layer};
  snapshot.layers.insert(snapshot.layers.end(), source.layers.begin(), source.layers.end());
  if (Status inserted = store_.Write(snapshot); !inserted) {
    images_.DropLayer(layer);
    return Fail(std::move(inserted).error().Wrap("record the new snapshot"));
  }
  Hold(snapshot);
  snapshots_[snapshot.id] = snapshot;
  Start({.sandbox = HostId(source),
         .layer = layer,
         .name = "snapshot:" + snapshot.id,
         .lasting = true,
         .done = [this, id = snapshot.id, use = std::move(use)](const Result<uint64_t>& bytes) {
           Taken(id, bytes);
         }});
  return snapshot;
}

void Snapshots::Import(const tenants::Caller& caller, UniqueFd archive, std::string name,
                       Check check, Imported done) {
  if (Status may = CheckQuota(caller.tenant, caller); !may) {
    return done(Fail(std::move(may).error()));
  }
  images_.ImportLayers(
      caller, std::move(archive),
      [check = std::move(check)](const images::Image& image) -> Status {
        ATOLL_ASSIGN(const Snapshot snapshot, SnapshotOf(image));
        return check(snapshot);
      },
      guard_([this, caller, name = std::move(name),
              done = std::move(done)](const Result<images::Image>& image) {
        done(image ? Admit(caller, *image, name) : Fail(image.error()));
      }));
}

Result<Snapshot> Snapshots::Admit(const tenants::Caller& caller, const images::Image& image,
                                  const std::string& name) {
  // Other snapshots may have been added during the import.
  ATOLL_TRY(CheckQuota(caller.tenant, caller));
  ATOLL_TRY(CheckCount(caller.tenant));
  ATOLL_ASSIGN(Snapshot snapshot, SnapshotOf(image));
  snapshot.id = NewSandboxId();
  snapshot.tenant = caller.tenant;
  if (!name.empty()) snapshot.name = name;
  snapshot.state = Stage::kReady;
  snapshot.reason = "snapshot_imported";
  snapshot.message = "Snapshot is ready";
  snapshot.created_at_ms = snapshot.transition_at_ms = clock_.UnixMillis();
  snapshot.size_bytes = images_.LayersOf(image).front().size_bytes;
  if (Status inserted = store_.Write(snapshot); !inserted) {
    return Fail(std::move(inserted).error().Wrap("record the new snapshot"));
  }
  Hold(snapshot);
  const Snapshot& admitted = snapshots_[snapshot.id] = std::move(snapshot);
  changed_();
  return admitted;
}

void Snapshots::Start(Copy copy) {
  waiting_.push_back(std::move(copy));
  CopyNext();
}

void Snapshots::CopyNext() {
  while (copying_ < kCopiesAtOnce && !waiting_.empty()) {
    Copy copy = std::move(waiting_.front());
    waiting_.pop_front();
    ++copying_;
    wire::CopyUpper asked{copy.sandbox, copy.layer, BytesLeft(), copy.lasting};
    spawner_.Ask(std::move(asked),
                 guard_([this, copy = std::move(copy)](const Result<wire::Copied>& copied) {
                   Copied(copy, copied);
                 }));
  }
}

void Snapshots::Copied(const Copy& copy, const Result<wire::Copied>& copied) {
  --copying_;
  CopyNext();
  // The error text is untrusted: it comes from a process that has read the sandbox's files.
  if (!copied) return GiveUp(copy, images::DecodeUnpackError(copied.error()));
  const auto report = images::ParseUnpackReport(copied->report);
  if (!report) return GiveUp(copy, report.error());
  stats_.held_micros += copied->held_micros;
  LogLine(LogLevel::kInfo, "layer copied")
      .Add("layer", copy.name)
      .Add("sandbox", copy.sandbox)
      .Add("bytes", report->bytes)
      .Add("entries", report->entries)
      .Add("held_us", copied->held_micros);
  spawner_.Ask(wire::PublishLayer{copy.layer, copy.lasting},
               guard_([this, copy, bytes = report->bytes](const Status& published) {
                 const Status kept = published ? Keep(copy, bytes) : published;
                 if (!kept) return GiveUp(copy, kept.error());
                 copy.done(bytes);
               }));
}

Status Snapshots::Keep(const Copy& copy, uint64_t bytes) {
  // Other copies may have finished meanwhile.
  if (bytes > BytesLeft()) {
    return Fail(NoRoom("no room for it: it has " + std::to_string(bytes) +
                       " bytes, and [snapshots] max_bytes leaves " + std::to_string(BytesLeft())));
  }
  images::Layer layer;
  layer.id = copy.layer;
  layer.blob_digest = copy.name;
  layer.size_bytes = bytes;
  return images_.KeepLayer(layer);
}

void Snapshots::GiveUp(const Copy& copy, const Error& error) {
  LogLine(LogLevel::kWarning, "cannot copy a layer")
      .Add("layer", copy.name)
      .Add("sandbox", copy.sandbox)
      .Add(error);
  images_.DropLayer(copy.layer);
  copy.done(Fail(error));
}

void Snapshots::Taken(const std::string& id, const Result<uint64_t>& bytes) {
  Snapshot& snapshot = snapshots_.at(id);
  Status entered;
  if (bytes) {
    ++stats_.taken;
    snapshot.size_bytes = *bytes;
    entered = Enter(snapshot, Stage::kReady, "snapshot_runtime_ready", "Snapshot is ready");
  } else {
    ++stats_.failed;
    Drop(snapshot);
    const bool timeout = bytes.error().code() == Code::kDeadlineExceeded;
    entered = Enter(snapshot, Stage::kFailed,
                    timeout ? "snapshot_runtime_timeout" : "snapshot_runtime_failed",
                    WithoutPaths(bytes.error().message(), config_.private_directories));
  }
  // If this fails, the next start checks the layer and decides between Ready and Failed.
  if (!entered) {
    LogLine(LogLevel::kError, "cannot record a snapshot").Add("snapshot", id).Add(entered.error());
  }
}

Status Snapshots::Enter(Snapshot& snapshot, Stage state, const char* reason, std::string message) {
  snapshot.state = state;
  snapshot.reason = reason;
  snapshot.message = std::move(message);
  snapshot.transition_at_ms = clock_.UnixMillis();
  changed_();
  return store_.Rewrite(snapshot);
}

const Snapshot* Snapshots::Find(const tenants::Caller& caller, const std::string& id) const {
  const auto found = snapshots_.find(id);
  if (found == snapshots_.end() || !caller.Sees(found->second.tenant)) return nullptr;
  return &found->second;
}

std::map<std::string, uint64_t> Snapshots::BytesByOwner() const {
  std::map<std::string, uint64_t> bytes;
  for (const auto& [id, snapshot] : snapshots_) {
    if (snapshot.state == Stage::kReady) bytes[snapshot.tenant] += snapshot.size_bytes;
  }
  return bytes;
}

std::vector<const Snapshot*> Snapshots::All(const tenants::Caller& caller) const {
  std::vector<const Snapshot*> all;
  all.reserve(snapshots_.size());
  for (const auto& [id, snapshot] : snapshots_) {
    if (caller.Sees(snapshot.tenant)) all.push_back(&snapshot);
  }
  return all;
}

Result<Snapshot> Snapshots::Usable(const tenants::Caller& caller, const std::string& id) const {
  const Snapshot* snapshot = Find(caller, id);
  if (snapshot == nullptr) {
    return Fail(Code::kNotFound, "snapshot '" + id.substr(0, 64) + "' does not exist");
  }
  if (snapshot->state != Stage::kReady) {
    return Fail(Code::kFailedPrecondition, "snapshot " + id + " is " +
                                               std::string(SnapshotStateName(snapshot->state)) +
                                               ": " + snapshot->message);
  }
  for (const wire::LayerId layer : snapshot->layers) {
    if (images_.HasLayer(layer)) continue;
    return Fail(Code::kInvalidArgument, "snapshot " + id + " needs layer " + std::to_string(layer) +
                                            ", which is no longer in the store");
  }
  return *snapshot;
}

Status Snapshots::Remove(const tenants::Caller& caller, const std::string& id) {
  const auto found = snapshots_.find(id);
  if (found == snapshots_.end() || !caller.Sees(found->second.tenant)) {
    return Fail(Code::kNotFound, "snapshot '" + id.substr(0, 64) + "' does not exist");
  }
  if (found->second.state == Stage::kCreating) {
    return Fail(Code::kFailedPrecondition,
                "snapshot " + id + " is being taken: wait until it is Ready or Failed");
  }
  ATOLL_TRY(store_.Remove(id));
  if (found->second.state == Stage::kReady) Drop(found->second);
  snapshots_.erase(found);
  changed_();
  return {};
}

std::vector<std::string> Snapshots::UsersOf(const tenants::Caller& caller,
                                            const images::Image& image) const {
  std::vector<std::string> ids;
  for (const auto& [id, snapshot] : snapshots_) {
    if (snapshot.state != Stage::kFailed && snapshot.image_digest == image.digest &&
        caller.Sees(snapshot.tenant)) {
      ids.push_back(id);
    }
  }
  return ids;
}

}  // namespace atl::sandbox
