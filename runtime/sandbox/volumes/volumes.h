// Named volumes, their users, and their removal. The spawner owns the directories. This class owns
// the records, and commits each record before it acts on it or answers a client.
//
// If a create makes a volume with deleteOnSandboxTermination, the sandbox becomes the volume's
// owner. The end of the owner, for any reason, removes the volume. If another sandbox uses the
// volume by then, the volume stays and has no owner.
//
// A refused create leaves no volume behind: the volumes that it made are removed, unless another
// sandbox has begun to use them.
//
// Thread rule: on the loop; nothing blocks but the writes of VolumeStore.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/guard.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/state/quotas.h"
#include "runtime/sandbox/volumes/volume_store.h"
#include "runtime/tenants/caller.h"
#include "runtime/wire/reply.h"

namespace atl::launch {
class SpawnerClient;
}

namespace atl::sandbox {

class Volumes {
 public:
  // All arguments outlive this object. Open loads the records.
  struct Config {
    bool has_quota = false;           // the volume store supports disk limits
    uint64_t default_disk_bytes = 0;  // limit of volumes whose request names none; 0: no limit
  };
  static Result<std::unique_ptr<Volumes>> Open(Loop& loop, const Clock& clock,
                                               launch::SpawnerClient& spawner, VolumeStore& store,
                                               Config config);
  Volumes(const Volumes&) = delete;
  Volumes& operator=(const Volumes&) = delete;

  // Sets the check whether the owner's tenant and its key may have another volume of that size.
  using Quota = std::function<Status(const tenants::Caller& owner, uint64_t disk_bytes)>;
  void SetQuota(Quota quota) { quota_ = std::move(quota); }
  // Adds the volumes of the tenant, those included that are being made or removed.
  void CountOwned(const std::string& tenant, Owned* owned) const;

  // Recovery at start: call Adopt for each recorded sandbox, then Start, which removes leftovers.
  void Adopt(const std::string& sandbox, const std::vector<wire::Volume>& volumes);
  void Start();

  struct View {
    std::string name;
    std::string tenant;
    int64_t created_at_ms = 0;
    std::vector<std::string> used_by;  // users, including sandboxes that are still being released
    bool deleted_with_sandbox = false;
  };
  // Returns the volumes that the caller sees.
  std::vector<View> List(const tenants::Caller& caller) const;
  // The name is one of the caller's tenant, here and below.
  std::optional<View> Find(const tenants::Caller& caller, const std::string& name) const;

  // `name` is a ValidVolumeName; `disk_bytes` 0: the default. kAlreadyExists. kInvalidArgument:
  // the name is too long with that of the tenant. kUnimplemented: a limit without quota support.
  // QuotaError. Other errors come from the spawner or the store.
  using Made = std::function<void(Result<View>)>;
  void Create(const tenants::Caller& caller, const std::string& name, uint64_t disk_bytes,
              Made done);
  // Removes a volume. Once it returns, clients do not find the volume, and it will be removed even
  // if the daemon dies, after the last leaving sandbox is gone. kNotFound. kFailedPrecondition: a
  // sandbox uses the volume.
  Status Remove(const tenants::Caller& caller, const std::string& name);
  // Call for a new spawner: retries at once the removals that failed in the old one.
  void RemoveAgain();
  // Measures the volume's disk use now.
  void Use(const tenants::Caller& caller, const std::string& name,
           std::function<void(Result<wire::DiskUse>)> done);

  // Makes missing volumes of a create by a sandbox of the owner, after checking that all its
  // volumes are available, and protects all of them from removal until Release. After an error
  // nothing is held, and `failed` is the kind of the volume that caused it. kUnavailable: the
  // volume is being removed, and that takes long. kPermissionDenied: the spawner does not allow it.
  // kNotFound: it does not exist, and the request does not create it. kInvalidArgument: the
  // sub-path. kUnimplemented: the limit. QuotaError. kInternal: a mount names a directory of
  // another tenant.
  using Acquired = std::function<void(Status, wire::Volume::Kind failed)>;
  void Acquire(const tenants::Caller& owner, const std::string& sandbox,
               std::vector<VolumeMount> mounts, Acquired done);
  // Call when the sandbox is recorded: the volumes made for it stay as its request says.
  void Keep(const std::string& sandbox);
  // Call when the sandbox is being deleted: clients no longer see it as a user, but its processes
  // may still write. Succeeds for an unknown sandbox.
  void Leave(const std::string& sandbox);
  // Call when the sandbox is gone, or was never made. Succeeds for an unknown sandbox.
  void Release(const std::string& sandbox);

 private:
  using Finished = std::function<void(Status)>;
  struct Waiter {
    Finished done;
    Loop::Id deadline = 0;
  };
  struct Volume {
    VolumeRecord record;
    std::set<std::string> users;
    std::set<std::string> leaving;  // former users that are not gone yet
    // Requests that wait until the volume is made, or removed.
    std::map<uint64_t, Waiter> waiting;
    // The error of the last removal, until the next attempt. A request that would wait gets this
    // error.
    Status stuck;
    Loop::Id retry = 0;  // timer of the next attempt
  };
  struct Acquisition {
    tenants::Caller owner;
    std::string sandbox;
    std::vector<VolumeMount> mounts;
    size_t next = 0;
    bool checked = false;  // all volumes are checked before the first is made
    Acquired done;
  };

  Volumes(Loop& loop, const Clock& clock, launch::SpawnerClient& spawner, VolumeStore& store,
          Config config)
      : loop_(loop), clock_(clock), spawner_(spawner), store_(store), config_(config) {}

  static View ViewOf(const Volume& volume);
  static bool Usable(const Volume& volume);
  static bool IsFree(const Volume& volume);
  // Returns null unless the caller's tenant has a volume of that name, whatever its state.
  const Volume* Own(const tenants::Caller& caller, const std::string& name) const;
  bool IsThere(const std::string& directory) const;
  void MakeNamed(const tenants::Caller& owner, const std::string& directory, uint64_t disk_bytes,
                 Made done);
  Volume* Look(const std::string& directory);
  void Hold(Volume& volume, const std::string& sandbox);
  void Continue(const std::shared_ptr<Acquisition>& acquisition);
  static void Advance(const std::shared_ptr<Acquisition>& acquisition);
  Status CheckNamed(const std::string& tenant, const VolumeMount& mount);
  Status CheckLimit(uint64_t disk_bytes) const;
  // False: the acquisition continues later.
  bool HaveNamed(const std::shared_ptr<Acquisition>& acquisition, const VolumeMount& mount);
  void EndAcquire(const std::shared_ptr<Acquisition>& acquisition, Status status);
  // Both ways to a new volume end here. The record names the owner's tenant.
  void Make(const tenants::Caller& owner, VolumeRecord record, Finished done);
  Status MarkRemoving(Volume& volume);
  void Discard(const std::string& directory);
  void Forget(const std::string& directory);
  // Waits until a volume that is being made or removed is neither. kUnavailable: it cannot be
  // removed at present, takes longer than a client waits, or too many requests wait.
  void Await(const std::string& directory, Finished done);
  void Wake(std::map<uint64_t, Waiter> waiting, const Status& status);

  Loop& loop_;
  const Clock& clock_;
  launch::SpawnerClient& spawner_;
  VolumeStore& store_;
  const Config config_;
  Quota quota_;
  std::map<std::string, Volume> volumes_;  // keyed by directory
  // Directories of volumes, by sandbox id.
  std::unordered_map<std::string, std::set<std::string>> held_;
  uint64_t last_waiter_ = 0;
  // Answers of the spawner and timers may come after this object is gone.
  const Guard guard_;
};

}  // namespace atl::sandbox
