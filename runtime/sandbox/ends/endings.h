// Ends sandboxes, from the cause (a request, the deadline, or the exit of process 1) until nothing
// of the sandbox is left. Has the spawner destroy what the sandbox holds, and repeats that until it
// is done.
//
// Thread rule: on the loop.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "netpolicy/network.h"
#include "runtime/base/clock.h"
#include "runtime/base/guard.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/create/launches.h"
#include "runtime/sandbox/create/slot_pool.h"
#include "runtime/sandbox/live/vaults.h"
#include "runtime/sandbox/output/entrypoint_logs.h"
#include "runtime/sandbox/state/group_counts.h"
#include "runtime/sandbox/state/machine.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/sandbox/state/waiters.h"
#include "runtime/sandbox/store/history.h"
#include "runtime/sandbox/store/store.h"
#include "runtime/sandbox/volumes/object_volumes.h"
#include "runtime/sandbox/volumes/volumes.h"
#include "runtime/tenants/caller.h"
#include "runtime/wire/reply.h"

namespace atl::launch {
class SpawnerClient;
}

namespace atl::sandbox {

class Departures;

// The reason for which a sandbox ended.
enum class End : uint8_t {
  kExit,     // process 1 exited with code 0
  kError,    // process 1 ended otherwise
  kStopped,  // process 1 ended, with any code, after a client had asked for it
  kOom,      // the kernel killed it for its memory
  kFailed,   // its entrypoint could not be started
  kDeleted,  // a client deleted it
  kExpired,
  kIdle,
  kLost,  // the host or the spawner was restarted
};
inline constexpr int kEnds = 9;

class Endings {
 public:
  // All parts outlive this object.
  struct Parts {
    Loop& loop;
    const Clock& clock;
    launch::SpawnerClient& spawner;
    Store& store;
    SlotPool& slots;
    Volumes& volumes;
    ObjectVolumes& objects;
    EntrypointLogs& logs;
    History& history;
    Vaults& vaults;
    Registry& registry;
    Machine& machine;
    Waiters& waiters;
    Launches& launches;
    GroupCounts& counts;
    netpolicy::Network& network;
    Departures& departures;
  };
  explicit Endings(const Parts& parts);
  Endings(const Endings&) = delete;
  Endings& operator=(const Endings&) = delete;

  // Deletes a sandbox. Once it returns, clients do not find the sandbox, and it will be removed
  // even if the daemon dies. kNotFound. Other errors come from the store; then nothing has changed.
  Status Delete(const tenants::Caller& caller, const std::string& id);
  // Call when a client has the entrypoint signalled to end it. Then no exit counts as a failure.
  void Stopping(const tenants::Caller& caller, const std::string& id);
  // Calls `then` when the sandbox has ended or does not exist, after a second at the latest. For a
  // caller that has lost its connection to execd: the spawner reports the reason a moment later,
  // over another socket.
  void AwaitEnd(const tenants::Caller& caller, const std::string& id, std::function<void()> then);

  // Call when the deadline has passed. Succeeds for an unknown id.
  void Expire(const std::string& id);
  // The spawner or the kernel reports that process 1 has ended.
  void Exited(Sandbox& sandbox, const wire::SandboxRecord& record);

  // Registers a function to call with the last reading of each sandbox that is destroyed. The
  // spawner keeps these readings until they are settled.
  void OnDestroyed(std::function<void(const std::string&, const wire::EndReading&)> destroyed) {
    destroyed_ = std::move(destroyed);
  }

  // Actions of the machine. Release destroys what the sandbox holds. Forget removes its record and
  // all other traces.
  void Release(Sandbox& sandbox);
  void Forget(Sandbox& sandbox);
  // Removes the record of a sandbox that a shutdown has ended. Its other traces are the caller's.
  void LeaveByShutdown(Sandbox& sandbox);
  // A watcher of the machine.
  void OnTransition(const Sandbox& sandbox, State before);

  // Returns true if the spawner has been asked to destroy what the sandbox holds.
  bool IsReleasing(const Sandbox& sandbox) const { return releases_.contains(&sandbox); }
  // Cancels the bookkeeping of a release, so that the next Release begins anew.
  void ForgetRelease(const Sandbox& sandbox) { releases_.erase(&sandbox); }
  // Counts sandboxes whose first release order is older than `longer_than_us` and not done.
  uint64_t CountReleasing(int64_t longer_than_us) const;
  // Returns the number of sandboxes removed completely since the daemon started.
  uint64_t removed() const { return removed_; }
  const std::array<uint64_t, kEnds>& ends() const { return ends_; }

 private:
  struct Ordered {
    uint64_t order = 0;    // number of the latest order; answers to older orders are ignored
    int64_t asked_us = 0;  // time of the first order
  };
  void AwaitEndUntil(const tenants::Caller& caller, const std::string& id, int64_t deadline_us,
                     std::function<void()> then);
  void Destroyed(const std::string& id, uint64_t order, const Result<wire::Destroyed>& destroyed);
  void Count(const Sandbox& sandbox);
  void Leave(const Sandbox& sandbox);
  void KeepDenials(Sandbox& sandbox);

  const Parts parts_;
  std::function<void(const std::string&, const wire::EndReading&)> destroyed_;
  std::unordered_set<const Sandbox*> stopping_;  // a client wants their entrypoints to end
  std::unordered_map<const Sandbox*, Ordered> releases_;
  const Sandbox* oom_killed_ = nullptr;  // the sandbox killed by OOM, while its end is applied
  uint64_t orders_ = 0;                  // number of the latest order
  uint64_t removed_ = 0;
  std::array<uint64_t, kEnds> ends_{};
  const Guard guard_;
};

}  // namespace atl::sandbox
