#include "runtime/sandbox/volumes/volumes.h"

#include <algorithm>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/project_quota.h"
#include "runtime/launch/spawner_client.h"

namespace atl::sandbox {
namespace {

using VolumeStage = VolumeRecord::State;

constexpr int64_t kRemoveRetryUs = 5000 * 1000;
// Creating and removing a volume take two system calls. Only processes that do not end, or a slow
// disk, take longer.
constexpr int64_t kVolumeWaitUs = 10 * 1000 * 1000;
constexpr size_t kVolumeWaiters = 64;  // limit per volume

std::string Named(const std::string& directory) {
  return "volume '" + std::string(wire::VolumeNameOf(directory)) + "'";
}

Status CheckLength(const std::string& directory) {
  if (wire::ValidVolumeDirectory(directory)) return {};
  return Fail(Code::kInvalidArgument,
              "the name of a volume is too long: with that of the tenant it has " +
                  std::to_string(directory.size() - 1) + " characters, allowed are 252");
}

}  // namespace

Result<std::unique_ptr<Volumes>> Volumes::Open(Loop& loop, const Clock& clock,
                                               launch::SpawnerClient& spawner, VolumeStore& store,
                                               Config config) {
  std::unique_ptr<Volumes> volumes(new Volumes(loop, clock, spawner, store, config));
  ATOLL_ASSIGN(std::vector<VolumeRecord> records, store.Load());
  for (VolumeRecord& record : records) {
    const std::string directory = record.directory;
    volumes->volumes_[directory].record = std::move(record);
  }
  return volumes;
}

void Volumes::Adopt(const std::string& sandbox, const std::vector<wire::Volume>& volumes) {
  for (const wire::Volume& volume : volumes) {
    if (volume.kind != wire::Volume::Kind::kNamed) continue;
    if (Volume* known = Look(volume.source)) Hold(*known, sandbox);
  }
}

void Volumes::Start() {
  std::vector<std::string> left_over;
  for (auto& [name, volume] : volumes_) {
    const std::string& owner = volume.record.owner;
    const bool orphan = !owner.empty() && !held_.contains(owner);
    if (volume.record.state == VolumeStage::kReady && !orphan) continue;
    // Removed after the sandboxes that are still leaving.
    if (volume.record.state == VolumeStage::kRemoving && !IsFree(volume)) continue;
    if (Usable(volume) && !IsFree(volume)) {
      volume.record.state = VolumeStage::kReady;
      volume.record.owner.clear();
      if (auto kept = store_.Rewrite(volume.record); !kept) {
        LogLine(LogLevel::kError, "cannot record a volume").Add("volume", name).Add(kept.error());
      }
      continue;
    }
    left_over.push_back(name);
  }
  for (const std::string& name : left_over) {
    LogLine(LogLevel::kInfo, "removing a volume that was left over").Add("volume", name);
    Volume& volume = *Look(name);
    // If the write fails, the next start finds the leftover again.
    [[maybe_unused]] const Status marked = MarkRemoving(volume);
    volume.record.state = VolumeStage::kRemoving;
    Discard(name);
  }
}

Volumes::View Volumes::ViewOf(const Volume& volume) {
  return {std::string(wire::VolumeNameOf(volume.record.directory)),
          volume.record.tenant,
          volume.record.created_at_ms,
          {volume.users.begin(), volume.users.end()},
          volume.record.state == VolumeStage::kReady && !volume.record.owner.empty()};
}

bool Volumes::Usable(const Volume& volume) {
  return volume.record.state == VolumeStage::kReady || volume.record.state == VolumeStage::kTrial;
}

bool Volumes::IsFree(const Volume& volume) {
  return volume.users.empty() && volume.leaving.empty();
}

std::vector<Volumes::View> Volumes::List(const tenants::Caller& caller) const {
  std::vector<View> views;
  for (const auto& [directory, volume] : volumes_) {
    if (Usable(volume) && caller.Sees(volume.record.tenant)) views.push_back(ViewOf(volume));
  }
  return views;
}

std::optional<Volumes::View> Volumes::Find(const tenants::Caller& caller,
                                           const std::string& name) const {
  const Volume* const volume = Own(caller, name);
  if (volume == nullptr || !Usable(*volume)) return std::nullopt;
  return ViewOf(*volume);
}

const Volumes::Volume* Volumes::Own(const tenants::Caller& caller, const std::string& name) const {
  const auto found = volumes_.find(wire::VolumeDirectory(caller.tenant, name));
  // The name in a path may be the directory of another tenant.
  const bool own = found != volumes_.end() && found->second.record.tenant == caller.tenant;
  return own ? &found->second : nullptr;
}

bool Volumes::IsThere(const std::string& directory) const {
  const auto found = volumes_.find(directory);
  return found != volumes_.end() && Usable(found->second);
}

Volumes::Volume* Volumes::Look(const std::string& directory) {
  const auto found = volumes_.find(directory);
  return found == volumes_.end() ? nullptr : &found->second;
}

void Volumes::Hold(Volume& volume, const std::string& sandbox) {
  volume.users.insert(sandbox);
  held_[sandbox].insert(volume.record.directory);
}

void Volumes::Create(const tenants::Caller& caller, const std::string& name, uint64_t disk_bytes,
                     Made done) {
  // A name that the client has not checked could be a directory of another tenant.
  if (!wire::ValidVolumeName(name)) {
    return done(
        Fail(Code::kInvalidArgument, "'" + name.substr(0, 64) + "' is not a volume's name"));
  }
  const std::string directory = wire::VolumeDirectory(caller.tenant, name);
  if (Status fits = CheckLength(directory); !fits) return done(Fail(std::move(fits).error()));
  MakeNamed(caller, directory, disk_bytes, std::move(done));
}

void Volumes::MakeNamed(const tenants::Caller& owner, const std::string& directory,
                        uint64_t disk_bytes, Made done) {
  if (Volume* volume = Look(directory)) {
    if (Usable(*volume)) return done(Fail(Code::kAlreadyExists, Named(directory) + " exists"));
    return Await(directory, [this, owner, directory, disk_bytes,
                             done = std::move(done)](const Status& waited) {
      waited ? MakeNamed(owner, directory, disk_bytes, done) : done(Fail(waited.error()));
    });
  }
  if (Status limit = CheckLimit(disk_bytes); !limit) return done(Fail(std::move(limit).error()));
  Make(owner, {directory, VolumeStage::kReady, clock_.UnixMillis(), "", owner.tenant, disk_bytes},
       [this, directory, done = std::move(done)](Status made) {
         if (!made) return done(Fail(std::move(made).error()));
         done(ViewOf(*Look(directory)));
       });
}

Status Volumes::CheckLimit(uint64_t disk_bytes) const {
  if (disk_bytes == 0 || config_.has_quota) return {};
  return Fail(Code::kUnimplemented,
              "the size of a volume cannot be enforced on this host, because the store has no "
              "project quotas; leave it out (" +
                  quota::Remedy() + ")");
}

void Volumes::CountOwned(const std::string& tenant, Owned* owned) const {
  for (const auto& [directory, volume] : volumes_) {
    if (volume.record.tenant != tenant) continue;
    ++owned->volumes;
    owned->disk_bytes += volume.record.disk_bytes;
  }
}

void Volumes::Make(const tenants::Caller& owner, VolumeRecord record, Finished done) {
  const std::string name = record.directory;
  if (record.disk_bytes == 0 && config_.has_quota) record.disk_bytes = config_.default_disk_bytes;
  const uint64_t disk_bytes = record.disk_bytes;
  if (Status may = quota_ ? quota_(owner, disk_bytes) : Status(); !may) return done(std::move(may));
  // An earlier release reads the volumes of the host, and knows no such field.
  if (record.tenant.empty()) record.disk_bytes = 0;
  VolumeRecord making = record;
  making.state = VolumeStage::kMaking;
  if (auto written = store_.Write(making); !written) return done(std::move(written));
  volumes_[name].record = std::move(making);
  spawner_.Ask(wire::MakeVolume{name, disk_bytes},
               guard_([this, name, state = record.state, done = std::move(done)](Status made) {
                 Volume& volume = *Look(name);
                 if (made) {
                   volume.record.state = state;
                   made = store_.Rewrite(volume.record);
                 }
                 auto waiting = std::exchange(volume.waiting, {});
                 if (!made) {
                   volume.record.state = VolumeStage::kRemoving;
                   // The directory exists without a record, so it is not the daemon's to remove.
                   const bool stray = made.error().code() == Code::kAlreadyExists;
                   stray ? Forget(name) : Discard(name);
                   if (stray) {
                     made = Fail(Code::kInternal,
                                 Named(name) +
                                     ": the store has a directory of that name that is no "
                                     "volume; move it out of DATA_DIR/store/volumes");
                   }
                 }
                 done(std::move(made));
                 Wake(std::move(waiting), {});
               }));
}

void Volumes::Await(const std::string& name, Finished done) {
  Volume& volume = *Look(name);
  if (!volume.stuck) return done(volume.stuck);
  if (volume.waiting.size() >= kVolumeWaiters) {
    return done(Fail(Code::kUnavailable, "too many requests wait for " + Named(name) +
                                             ", which is being made or removed; try again"));
  }
  const uint64_t number = ++last_waiter_;
  const Loop::Id deadline = loop_.After(
      kVolumeWaitUs, guard_([this, name, number] {
        Volume* const found = Look(name);
        if (found == nullptr) return;
        if (auto waiter = found->waiting.extract(number)) {
          waiter.mapped().done(Fail(
              Code::kUnavailable, Named(name) + " is being removed, and was not gone within 10 s; "
                                                "try again, or take another name"));
        }
      }));
  volume.waiting[number] = {std::move(done), deadline};
}

void Volumes::Wake(std::map<uint64_t, Waiter> waiting, const Status& status) {
  for (const auto& [number, waiter] : waiting) loop_.Cancel(waiter.deadline);
  for (const auto& [number, waiter] : waiting) waiter.done(status);
}

Status Volumes::MarkRemoving(Volume& volume) {
  VolumeRecord record = volume.record;
  record.state = VolumeStage::kRemoving;
  ATOLL_TRY(store_.Rewrite(record));
  volume.record = std::move(record);
  return {};
}

Status Volumes::Remove(const tenants::Caller& caller, const std::string& name) {
  const std::string directory = wire::VolumeDirectory(caller.tenant, name);
  Volume* const volume = Own(caller, name) == nullptr ? nullptr : Look(directory);
  if (volume == nullptr || volume->record.state == VolumeStage::kRemoving) {
    return Fail(Code::kNotFound, Named(directory) + " does not exist");
  }
  if (!volume->users.empty()) {
    return Fail(Code::kFailedPrecondition,
                Named(directory) + " is used by sandbox " + *volume->users.begin() +
                    (volume->users.size() > 1 ? " and others" : "") + ": delete that first");
  }
  if (volume->record.state == VolumeStage::kMaking) {
    return Fail(Code::kFailedPrecondition, Named(directory) + " is being made; try again");
  }
  ATOLL_TRY(MarkRemoving(*volume));
  if (IsFree(*volume)) Discard(directory);
  return {};
}

void Volumes::RemoveAgain() {
  std::vector<std::string> names;
  for (const auto& [name, volume] : volumes_) {
    if (volume.retry != 0) names.push_back(name);
  }
  for (const std::string& name : names) Discard(name);
}

void Volumes::Discard(const std::string& name) {
  Volume& leaving = *Look(name);
  leaving.stuck = {};
  loop_.Cancel(std::exchange(leaving.retry, 0));
  spawner_.Ask(wire::RemoveVolume{name}, guard_([this, name](const Status& removed) {
                 if (removed) return Forget(name);
                 Volume& volume = *Look(name);
                 volume.stuck = removed;
                 Wake(std::exchange(volume.waiting, {}), removed);
                 // The next spawner is asked as soon as it exists.
                 if (removed.error().code() != Code::kUnavailable) {
                   LogLine(LogLevel::kError, "cannot remove a volume; trying again")
                       .Add("volume", name)
                       .Add(removed.error());
                 }
                 volume.retry =
                     loop_.After(kRemoveRetryUs, guard_([this, name] { Discard(name); }));
               }));
}

void Volumes::Forget(const std::string& name) {
  // If the record cannot be removed, the next start finishes the removal.
  if (auto removed = store_.Remove(name); !removed) {
    LogLine(LogLevel::kError, "cannot remove the record of a volume")
        .Add("volume", name)
        .Add(removed.error());
  }
  auto waiting = std::move(Look(name)->waiting);
  volumes_.erase(name);
  Wake(std::move(waiting), {});
}

void Volumes::Use(const tenants::Caller& caller, const std::string& name,
                  std::function<void(Result<wire::DiskUse>)> done) {
  const std::string directory = wire::VolumeDirectory(caller.tenant, name);
  if (!Find(caller, name)) return done(Fail(Code::kNotFound, Named(name) + " does not exist"));
  spawner_.Ask(wire::MeasureVolume{directory}, std::move(done));
}

void Volumes::Acquire(const tenants::Caller& owner, const std::string& sandbox,
                      std::vector<VolumeMount> mounts, Acquired done) {
  Continue(std::make_shared<Acquisition>(
      Acquisition{owner, sandbox, std::move(mounts), 0, false, std::move(done)}));
}

void Volumes::Continue(const std::shared_ptr<Acquisition>& acquisition) {
  while (acquisition->next < acquisition->mounts.size()) {
    const VolumeMount& mount = acquisition->mounts[acquisition->next];
    const bool named = mount.volume.kind == wire::Volume::Kind::kNamed;
    if (mount.volume.kind == wire::Volume::Kind::kObjects) {
      // Buckets are acquired when there is a slot to mount them for.
      acquisition->checked ? static_cast<void>(++acquisition->next) : Advance(acquisition);
      continue;
    }
    if (acquisition->checked) {
      if (named && !HaveNamed(acquisition, mount)) return;
      ++acquisition->next;
      continue;
    }
    if (Status can = named ? CheckNamed(acquisition->owner.tenant, mount) : Status(); !can) {
      return EndAcquire(acquisition, std::move(can));
    }
    const bool there = !named || IsThere(mount.volume.source);
    if (there && (!named || !mount.volume.sub_path.empty())) {
      // The build would fail, too, but its error would not tell the client what to do.
      return spawner_.Ask(wire::CheckVolume{mount.volume},
                          guard_([this, acquisition](Status checked) {
                            if (!checked) return EndAcquire(acquisition, std::move(checked));
                            Advance(acquisition);
                            Continue(acquisition);
                          }));
    }
    Advance(acquisition);
  }
  EndAcquire(acquisition, {});
}

void Volumes::Advance(const std::shared_ptr<Acquisition>& acquisition) {
  if (++acquisition->next < acquisition->mounts.size()) return;
  acquisition->checked = true;
  acquisition->next = 0;
}

Status Volumes::CheckNamed(const std::string& tenant, const VolumeMount& mount) {
  const std::string& directory = mount.volume.source;
  if (wire::VolumeDirectory(tenant, wire::VolumeNameOf(directory)) != directory) {
    return Fail(Code::kInternal, "a mount of a volume has lost its tenant");
  }
  ATOLL_TRY(CheckLength(directory));
  // A volume that is being made or removed exists here, and the acquisition waits for it.
  if (Look(mount.volume.source) != nullptr) return {};
  if (mount.create_if_missing) return CheckLimit(mount.disk_bytes);
  return Fail(Code::kNotFound, Named(mount.volume.source) +
                                   " does not exist, and createIfNotExists is false: create it "
                                   "first, or let it be created");
}

bool Volumes::HaveNamed(const std::shared_ptr<Acquisition>& acquisition, const VolumeMount& mount) {
  const std::string& name = mount.volume.source;
  Volume* volume = Look(name);
  if (volume != nullptr && Usable(*volume)) {
    Hold(*volume, acquisition->sandbox);
    return true;
  }
  if (volume != nullptr) {
    Await(name, [this, acquisition](Status waited) {
      waited ? Continue(acquisition) : EndAcquire(acquisition, std::move(waited));
    });
    return false;
  }
  if (Status can = CheckNamed(acquisition->owner.tenant, mount); !can) {
    EndAcquire(acquisition, std::move(can));
    return false;
  }
  const bool owned = std::any_of(acquisition->mounts.begin(), acquisition->mounts.end(),
                                 [&](const VolumeMount& other) {
                                   return other.volume.kind == wire::Volume::Kind::kNamed &&
                                          other.volume.source == name && other.delete_with_sandbox;
                                 });
  Make(acquisition->owner,
       {name, owned ? VolumeStage::kReady : VolumeStage::kTrial, clock_.UnixMillis(),
        acquisition->sandbox, acquisition->owner.tenant, mount.disk_bytes},
       [this, acquisition](Status made) {
         if (!made) return EndAcquire(acquisition, std::move(made));
         Continue(acquisition);
       });
  return false;
}

void Volumes::EndAcquire(const std::shared_ptr<Acquisition>& acquisition, Status status) {
  auto kind = wire::Volume::Kind::kNamed;
  if (!status) {
    kind = acquisition->mounts[acquisition->next].volume.kind;
    Release(acquisition->sandbox);
  }
  const Acquired done = std::move(acquisition->done);
  done(std::move(status), kind);
}

void Volumes::Keep(const std::string& sandbox) {
  const auto found = held_.find(sandbox);
  if (found == held_.end()) return;
  for (const std::string& name : found->second) {
    VolumeRecord& record = Look(name)->record;
    if (record.state != VolumeStage::kTrial || record.owner != sandbox) continue;
    record.state = VolumeStage::kReady;
    record.owner.clear();
    // If this write fails, the old record means the same as long as the sandbox is recorded.
    if (auto written = store_.Rewrite(record); !written) {
      LogLine(LogLevel::kError, "cannot record a volume").Add("volume", name).Add(written.error());
    }
  }
}

void Volumes::Leave(const std::string& sandbox) {
  const auto found = held_.find(sandbox);
  if (found == held_.end()) return;
  for (const std::string& name : found->second) {
    Volume& volume = *Look(name);
    if (volume.users.erase(sandbox) != 0) volume.leaving.insert(sandbox);
  }
}

void Volumes::Release(const std::string& sandbox) {
  const auto found = held_.find(sandbox);
  if (found == held_.end()) return;
  const std::set<std::string> names = std::move(found->second);
  held_.erase(found);
  for (const std::string& name : names) {
    Volume& volume = *Look(name);
    volume.users.erase(sandbox);
    volume.leaving.erase(sandbox);
    const bool unused = IsFree(volume);
    if (volume.record.state == VolumeStage::kRemoving) {
      if (unused) Discard(name);
      continue;
    }
    if (volume.record.owner != sandbox) continue;
    Status written;
    if (unused) {
      written = MarkRemoving(volume);
    } else {
      volume.record.state = VolumeStage::kReady;
      volume.record.owner.clear();
      written = store_.Rewrite(volume.record);
    }
    if (!written) {
      LogLine(LogLevel::kError, "cannot record the end of a volume; the next start removes it")
          .Add("volume", name)
          .Add(written.error());
    } else if (unused) {
      Discard(name);
    }
  }
}

}  // namespace atl::sandbox
