// Rollbacks: a sandbox gets the files of a snapshot. It keeps everything else except its processes.
//
// The new version is built from the snapshot's layers under another host id while the old one runs.
// Nothing is started in it. Then one record is written, which makes the sandbox the new version.
// The old version is destroyed, and when it is gone, the entrypoint of the new one starts. So the
// two never use the same volumes, locks and names at once. Before the record the new version is an
// orphan; after it the old version is. If the daemon dies in between, the next daemon destroys
// whichever is the orphan.
//
// If the daemon dies after the record and before the start, the new version's start message is
// lost. Nothing was written in the new version, so the next daemon builds it again.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "netpolicy/network.h"
#include "runtime/base/clock.h"
#include "runtime/base/guard.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/create/check.h"
#include "runtime/sandbox/create/creates.h"
#include "runtime/sandbox/create/launch.h"
#include "runtime/sandbox/create/launches.h"
#include "runtime/sandbox/create/orphans.h"
#include "runtime/sandbox/live/pauses.h"
#include "runtime/sandbox/live/vaults.h"
#include "runtime/sandbox/output/entrypoint_logs.h"
#include "runtime/sandbox/snapshots/snapshots.h"
#include "runtime/sandbox/state/attempts.h"
#include "runtime/sandbox/state/layers.h"
#include "runtime/sandbox/state/machine.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/sandbox/state/waiters.h"
#include "runtime/sandbox/store/store.h"
#include "runtime/sandbox/volumes/object_volumes.h"
#include "runtime/tenants/caller.h"

namespace atl::sandbox {

struct WantedRollback {
  std::string snapshot_id;
  std::string idempotency_key;  // the Idempotency-Key; empty: none
  std::string fingerprint;      // fingerprint of what it asks for, if there is a key
  std::string request_id;       // names the request in the log
};

struct RollbackStats {
  uint64_t ok = 0;
  uint64_t refused = 0;
  uint64_t failed = 0;
};

class Rollbacks {
 public:
  // All parts outlive this object.
  struct Parts {
    Loop& loop;
    const Clock& clock;
    netpolicy::Network& network;
    Store& store;
    const Snapshots& snapshots;
    const ObjectVolumes& objects;
    EntrypointLogs& logs;
    Vaults& vaults;
    Launch::Parts launch;
    Registry& registry;
    Room& room;
    Layers& layers;
    Machine& machine;
    Waiters& waiters;
    Attempts& attempts;
    Launches& launches;
    Orphans& orphans;
    const Check& check;
    Creates& creates;
    Pauses& pauses;
  };
  explicit Rollbacks(const Parts& parts) : parts_(parts) {
    parts_.registry.OnRemove([this](const Sandbox& sandbox) { formers_.erase(&sandbox); });
  }
  Rollbacks(const Rollbacks&) = delete;
  Rollbacks& operator=(const Rollbacks&) = delete;

  // Gives the sandbox the files of a snapshot of the same image. The sandbox keeps its id, tokens,
  // spec, labels, policy, volumes and deadline. Its processes, log and addresses are new, and its
  // entrypoint starts even if the sandbox was paused. Calls `done` when the record is committed and
  // the sandbox runs. After an error the sandbox is unchanged, unless it has ended meanwhile. A
  // request without a key joins a rollback in flight to the same snapshot. kNotFound.
  // kFailedPrecondition: the sandbox does not live, or is being rolled back to another snapshot.
  // Other errors: see Check::Create.
  void RollBack(const tenants::Caller& caller, const std::string& id, const WantedRollback& wanted,
                const Created& done);

  // Actions of the machine: destroy the old version; start the entrypoint.
  void DestroyFormer(const Sandbox& sandbox);
  void StartEntrypoint(Sandbox& sandbox);
  // Call when an orphan is gone: starts sandboxes whose old version it was.
  void FormersGone();
  // Call at start for a rollback that an earlier daemon had recorded: the version that it built is
  // an orphan.
  void Adopt(Sandbox& sandbox);
  // Process 1 has ended before its start in a version that is being built. Returns false if
  // `record` belongs to no rollback.
  bool KeepExit(const wire::SandboxRecord& record);

  // Returns the versions that are being built. Each has a slot once it has got one.
  std::vector<const Sandbox*> Coming() const;
  // Cancels all rollbacks in flight without any other effect. Returns their attempts.
  std::vector<std::shared_ptr<Attempt>> TakeAll();

  const RollbackStats& stats() const { return stats_; }

 private:
  class Build;
  // The old version of a sandbox, until it is gone. Empty host id: an earlier daemon's.
  struct Former {
    std::string host_id;
    uint32_t slot = 0;
  };
  // Joins a request without a key to a rollback in flight to that snapshot. Returns false if there
  // is none.
  bool Join(const tenants::Caller& caller, const std::string& id, const WantedRollback& wanted,
            const Attempt::Answered& answered);
  // Returns the new version, without a slot.
  tl::expected<Sandbox, CreateError> Next(const tenants::Caller& caller, const std::string& id,
                                          const std::string& snapshot_id);
  void Built(Build& build);
  // Gives back what the rollback has built or reserved; counts and logs the reason.
  void TakeBack(const Attempt& attempt, const CreateError& why);

  const Parts parts_;
  std::map<std::string, std::shared_ptr<Build>> under_way_;  // keyed by host id
  std::unordered_map<const Sandbox*, Former> formers_;
  RollbackStats stats_;
  const Guard guard_;
};

}  // namespace atl::sandbox
