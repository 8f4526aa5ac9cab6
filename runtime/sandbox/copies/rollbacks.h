// Rollbacks: a sandbox gets the files of a snapshot and keeps all else but its processes.
//
// The new sandbox is built beside it, from the snapshot's layers and under another host id, while
// it goes on; nothing in there is started. Then one record is written, and the sandbox is that: its
// former self is destroyed, and when that has gone the entrypoint starts, so that two of them never
// have the same volumes, locks and names at once. Before that record all that there is of the new
// one is an orphan, after it all that there is of the old one is: who dies in between leaves
// the one or the other, and what is left over is destroyed as orphans are.
//
// A daemon that dies after the record and before the start takes the new one's start message along.
// Nothing was written there, so the next daemon builds it once more.
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
#include "runtime/sandbox/record/caller.h"
#include "runtime/sandbox/snapshots/snapshots.h"
#include "runtime/sandbox/state/attempts.h"
#include "runtime/sandbox/state/layers.h"
#include "runtime/sandbox/state/machine.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/sandbox/state/waiters.h"
#include "runtime/sandbox/store/store.h"
#include "runtime/sandbox/volumes/object_volumes.h"

namespace atl::sandbox {

struct WantedRollback {
  std::string snapshot_id;
  std::string idempotency_key;  // of the request; empty: none
  std::string fingerprint;      // of what it asks for; with a key
  std::string request_id;       // for the log
};

struct RollbackStats {
  uint64_t ok = 0;
  uint64_t refused = 0;
  uint64_t failed = 0;
};

class Rollbacks {
 public:
  // All parts outlive it.
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

  // Gives the sandbox the files of the snapshot, which is of the same image. It keeps its id,
  // tokens, spec, labels, policy, volumes and deadline; its processes, their log and its addresses
  // are new, and its entrypoint has started, though it was paused. `done` is called when its record
  // is safe and it runs, or with why not: then it is as it was, unless it has ended meanwhile. A
  // request without a key joins a rollback to the same snapshot that is under way. kNotFound;
  // kFailedPrecondition: it does not live, or is being rolled back to another; else as a create.
  void RollBack(const Caller& caller, const std::string& id, const WantedRollback& wanted,
                const Created& done);

  // Actions of the machine: destroys what the sandbox was; lets its entrypoint start.
  void DestroyFormer(const Sandbox& sandbox);
  void StartEntrypoint(Sandbox& sandbox);
  // An orphan has gone: starts those whose former self it was.
  void FormersGone();
  // At start, one that an earlier daemon had recorded: what was built for it then is an orphan.
  void Adopt(Sandbox& sandbox);
  // Process 1 has ended in what is being built for a rollback, before its start. False: it is none.
  bool KeepExit(const wire::SandboxRecord& record);

  // The sandboxes that are being built, each with a slot once it has one.
  std::vector<const Sandbox*> Coming() const;
  // Gives up all that are under way, without an effect on anything else; returns their attempts.
  std::vector<std::shared_ptr<Attempt>> TakeAll();

  const RollbackStats& stats() const { return stats_; }

 private:
  class Build;
  // The sandbox before its rollback, until that has gone. An earlier daemon's has no host id.
  struct Former {
    std::string host_id;
    uint32_t slot = 0;
  };
  // Without a key: true if it waits for one to that snapshot.
  bool Join(const Caller& caller, const std::string& id, const WantedRollback& wanted,
            const Attempt::Answered& answered);
  // The sandbox as it is to be, in no slot yet.
  tl::expected<Sandbox, CreateError> Next(const Caller& caller, const std::string& id,
                                          const std::string& snapshot_id);
  void Built(Build& build);
  // Gives back what was built for it, or was to be; counts and logs why.
  void TakeBack(const Attempt& attempt, const CreateError& why);

  const Parts parts_;
  std::map<std::string, std::shared_ptr<Build>> under_way_;  // by host id
  std::unordered_map<const Sandbox*, Former> formers_;
  RollbackStats stats_;
  const Guard guard_;
};

}  // namespace atl::sandbox
