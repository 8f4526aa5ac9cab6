// The end of a sandbox, from whatever ends it to the moment at which nothing of it is left: by
// request, at its deadline, or because its process 1 has ended. What it holds is destroyed behind
// that, and asked for until it is done.
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

#include "runtime/base/clock.h"
#include "runtime/base/guard.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/create/launches.h"
#include "runtime/sandbox/create/slot_pool.h"
#include "runtime/sandbox/live/vaults.h"
#include "runtime/sandbox/output/entrypoint_logs.h"
#include "runtime/sandbox/record/caller.h"
#include "runtime/sandbox/state/group_counts.h"
#include "runtime/sandbox/state/machine.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/sandbox/state/waiters.h"
#include "runtime/sandbox/store/history.h"
#include "runtime/sandbox/store/store.h"
#include "runtime/sandbox/volumes/object_volumes.h"
#include "runtime/sandbox/volumes/volumes.h"
#include "runtime/wire/reply.h"

namespace atl::launch {
class SpawnerClient;
}

namespace atl::sandbox {

// Why there is no such sandbox any more.
enum class End : uint8_t {
  kExit,     // process 1 ended with code 0
  kError,    // otherwise
  kStopped,  // process 1 ended, whatever its code, because a client had asked for that
  kOom,      // killed by the kernel for its memory
  kFailed,   // its entrypoint could not be started
  kDeleted,  // by request
  kExpired,
  kIdle,
  kLost,  // the host or the spawner was restarted
};
inline constexpr int kEnds = 9;

class Endings {
 public:
  // All parts outlive it.
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
  };
  explicit Endings(const Parts& parts);
  Endings(const Endings&) = delete;
  Endings& operator=(const Endings&) = delete;

  // Once it returns, the sandbox is not found any more and will be gone even if we die. kNotFound;
  // else what the store says: then it is as it was.
  Status Delete(const Caller& caller, const std::string& id);
  // A client has its entrypoint signalled so that it ends: however it then ends, it has not failed.
  void Stopping(const Caller& caller, const std::string& id);
  // Calls `then` when the sandbox has ended or is not there, at the latest after a second. For
  // whoever has lost its execd: why comes by another way, from the spawner, a moment later.
  void AwaitEnd(const Caller& caller, const std::string& id, std::function<void()> then);

  // Its deadline has passed. An unknown one is no error.
  void Expire(const std::string& id);
  // Process 1 has ended, as the spawner or the kernel says.
  void Exited(Sandbox& sandbox, const wire::SandboxRecord& record);

  // Actions of the machine: destroys what it holds; removes its record and all that is known of it.
  void Release(Sandbox& sandbox);
  void Forget(Sandbox& sandbox);
  // A watcher of the machine.
  void OnTransition(const Sandbox& sandbox, State before);

  // Whether the spawner has been asked to destroy what it holds.
  bool IsReleasing(const Sandbox& sandbox) const { return releases_.contains(&sandbox); }
  // Nobody is at it any more, so that the next Release is the first.
  void ForgetRelease(const Sandbox& sandbox) { releases_.erase(&sandbox); }
  // Sandboxes whose release was first asked for so long ago and is not over.
  uint64_t CountReleasing(int64_t longer_than_us) const;
  // Sandboxes of which nothing is left, since the daemon started.
  uint64_t removed() const { return removed_; }
  const std::array<uint64_t, kEnds>& ends() const { return ends_; }

 private:
  struct Ordered {
    uint64_t order = 0;    // the latest: answers to others count no more
    int64_t asked_us = 0;  // the first time
  };
  void AwaitEndUntil(const Caller& caller, const std::string& id, int64_t deadline_us,
                     std::function<void()> then);
  void Destroyed(const std::string& id, uint64_t order, const Status& status);
  void Count(const Sandbox& sandbox);

  const Parts parts_;
  std::unordered_set<const Sandbox*> stopping_;  // a client wants their entrypoints to end
  std::unordered_map<const Sandbox*, Ordered> releases_;
  const Sandbox* oom_killed_ = nullptr;  // while its end is entered
  uint64_t orders_ = 0;                  // the number of the latest
  uint64_t removed_ = 0;
  std::array<uint64_t, kEnds> ends_{};
  const Guard guard_;
};

}  // namespace atl::sandbox
