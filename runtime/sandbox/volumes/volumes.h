// Named volumes, who uses them, and when they go. The directories are the spawner's; the records
// are here, and each is on disk before what it says is done or told.
//
// A volume that a create made with deleteOnSandboxTermination has that sandbox as its owner: when
// the sandbox is gone, however it came to that, the volume goes too, unless another sandbox uses it
// by then; it then stays, as one without an owner.
//
// A create that is refused, at whatever point, leaves no volume behind: what was made for it goes,
// unless another sandbox has begun to use it.
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
#include "runtime/sandbox/volumes/volume_store.h"
#include "runtime/wire/reply.h"

namespace atl::launch {
class SpawnerClient;
}

namespace atl::sandbox {

class Volumes {
 public:
  // All parts outlive it. Loads the records.
  struct Config {
    bool has_quota = false;           // the store can keep a disk limit
    uint64_t default_disk_bytes = 0;  // of a volume that nobody has named one for; 0: none
  };
  static Result<std::unique_ptr<Volumes>> Open(Loop& loop, const Clock& clock,
                                               launch::SpawnerClient& spawner, VolumeStore& store,
                                               Config config);
  Volumes(const Volumes&) = delete;
  Volumes& operator=(const Volumes&) = delete;

  // At start: a recorded sandbox has these; after all of them, what is left over is removed.
  void Adopt(const std::string& sandbox, const std::vector<wire::Volume>& volumes);
  void Start();

  struct View {
    std::string name;
    int64_t created_at_ms = 0;
    std::vector<std::string> used_by;  // sandboxes, until nothing of them is left
    bool deleted_with_sandbox = false;
  };
  std::vector<View> List() const;
  std::optional<View> Find(const std::string& name) const;

  // `name` is a ValidVolumeName; `disk_bytes` 0: the default. kAlreadyExists; kUnimplemented: a
  // limit, and no quota to keep it with; else what the spawner or the store says.
  using Made = std::function<void(Result<View>)>;
  void Create(const std::string& name, uint64_t disk_bytes, Made done);
  // Once it returns, the volume is not found any more and will be gone even if we die, behind the
  // last sandbox that has left it. kFailedPrecondition: a sandbox uses it. kNotFound.
  Status Remove(const std::string& name);
  // There is another spawner: what the one before could not remove is asked of it at once.
  void RemoveAgain();
  // What it takes on disk, counted now.
  void Use(const std::string& name, std::function<void(Result<wire::DiskUse>)> done);

  // Makes what the sandbox-to-be asks for, once it is known that all of it can be had, and keeps it
  // from being removed until Release. If it fails nothing is held: `failed` is the kind of the one
  // that cannot be had. kUnavailable: it is being removed, and that takes long. kPermissionDenied:
  // the spawner does not allow it; kNotFound: it is not to be created; kInvalidArgument: its sub
  // path; kUnimplemented: its limit.
  using Acquired = std::function<void(Status, wire::Volume::Kind failed)>;
  void Acquire(const std::string& sandbox, std::vector<VolumeMount> mounts, Acquired done);
  // The sandbox has come about, and is recorded: what was made for it stays as its request says.
  void Keep(const std::string& sandbox);
  // The sandbox is being deleted: it is no user any more that anybody could ask for, but its
  // processes may still write. An unknown one is not an error.
  void Leave(const std::string& sandbox);
  // The sandbox is gone, or did not come about. An unknown one is not an error.
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
    std::set<std::string> leaving;  // sandboxes that were users, until they are gone
    // Requests that wait until the volume is made, or gone.
    std::map<uint64_t, Waiter> waiting;
    // Why it could not be removed the last time, until it is tried again: who would wait hears
    // that.
    Status stuck;
    Loop::Id retry = 0;  // then
  };
  struct Acquisition {
    std::string sandbox;
    std::vector<VolumeMount> mounts;
    size_t next = 0;
    bool checked = false;  // all of them, before the first is made
    Acquired done;
  };

  Volumes(Loop& loop, const Clock& clock, launch::SpawnerClient& spawner, VolumeStore& store,
          Config config)
      : loop_(loop), clock_(clock), spawner_(spawner), store_(store), config_(config) {}

  static View ViewOf(const Volume& volume);
  static bool Usable(const Volume& volume);
  static bool IsFree(const Volume& volume);
  Volume* Look(const std::string& name);
  void Hold(Volume& volume, const std::string& sandbox);
  void Continue(const std::shared_ptr<Acquisition>& acquisition);
  static void Advance(const std::shared_ptr<Acquisition>& acquisition);
  Status CheckNamed(const VolumeMount& mount);
  Status CheckLimit(uint64_t disk_bytes) const;
  // False: the acquisition goes on later.
  bool HaveNamed(const std::shared_ptr<Acquisition>& acquisition, const VolumeMount& mount);
  void EndAcquire(const std::shared_ptr<Acquisition>& acquisition, Status status);
  void Make(const VolumeRecord& record, uint64_t disk_bytes, Finished done);
  Status MarkRemoving(Volume& volume);
  void Discard(const std::string& name);
  void Forget(const std::string& name);
  // Until the volume, which is being made or removed, is neither. kUnavailable: it cannot be
  // removed at present, or takes longer than a client waits, or too many wait.
  void Await(const std::string& name, Finished done);
  void Wake(std::map<uint64_t, Waiter> waiting, const Status& status);

  Loop& loop_;
  const Clock& clock_;
  launch::SpawnerClient& spawner_;
  VolumeStore& store_;
  const Config config_;
  std::map<std::string, Volume> volumes_;
  std::unordered_map<std::string, std::set<std::string>> names_;  // by sandbox
  uint64_t last_waiter_ = 0;
  // Answers of the spawner and timers may come after we have gone.
  const Guard guard_;
};

}  // namespace atl::sandbox
