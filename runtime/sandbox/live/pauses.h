// Pauses and resumes live sandboxes, for clients and for the idle policy. Moves a paused sandbox's
// memory to swap.
//
// A paused sandbox has a reason, which survives a restart. IDLE_PAUSED: the idle policy paused it,
// and the next request resumes it. CONTAINER_PAUSED: a client paused it, and only a client's resume
// ends the pause.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/guard.h"
#include "runtime/base/loop.h"
#include "runtime/base/metrics.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/live/idle_watch.h"
#include "runtime/sandbox/state/machine.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/sandbox/state/waiters.h"
#include "runtime/sandbox/store/history.h"
#include "runtime/sandbox/store/store.h"
#include "runtime/tenants/caller.h"
#include "runtime/wire/reply.h"

namespace atl::launch {
class SpawnerClient;
}

namespace atl::sandbox {

struct PauseStats {
  Distribution resume_seconds;  // time until a paused sandbox runs, whoever asked
  uint64_t paused = 0;          // pauses by clients
  uint64_t idle_paused = 0;
  uint64_t woken = 0;      // resumes of idle-paused sandboxes by a request
  uint64_t reclaimed = 0;  // pauses whose memory went to swap
  uint64_t kept = 0;       // pauses whose memory should have gone to swap and did not
  uint64_t reclaimed_bytes = 0;
};

class Pauses {
 public:
  struct Settings {
    // Returns the CPU time of the slot's sandbox since it began.
    IdleWatch::CpuMicros cpu_micros = [](uint32_t) { return 0; };
    // A record's message never names a path below one of these directories (private_paths.h).
    std::vector<std::string> private_directories = {};
  };
  // All parts outlive this object.
  struct Parts {
    Loop& loop;
    const Clock& clock;
    launch::SpawnerClient& spawner;
    Store& store;
    History& history;
    Registry& registry;
    Machine& machine;
    Waiters& waiters;
  };
  Pauses(const Parts& parts, Settings settings);
  Pauses(const Pauses&) = delete;
  Pauses& operator=(const Pauses&) = delete;

  // Freezes or thaws every process of the sandbox. Calls `done` now or later, when that is done.
  // kNotFound. kFailedPrecondition: the state does not allow it. A client that asks for a
  // transition in flight waits for it, too. A client's Pause of an idle-paused sandbox makes the
  // pause the client's.
  void Pause(const tenants::Caller& caller, const std::string& id, Settled done);
  void Resume(const tenants::Caller& caller, const std::string& id, Settled done);
  // Calls `done` when the sandbox runs, at once if it does already. Resumes it if it Wakes.
  // kNotFound. kFailedPrecondition: another state.
  void Wake(const tenants::Caller& caller, const std::string& id, Settled done);

  // Registers a client's request to the sandbox, until the last copy is gone. Meanwhile the idle
  // policy does not pause the sandbox. The request counts as use once the caller reports a
  // successful answer. Null: the sandbox has no idle policy.
  std::shared_ptr<IdleWatch::Request> OpenRequest(const Sandbox& sandbox);
  // Registers work of the daemon, which counts as use at once.
  std::shared_ptr<const void> Use(const Sandbox& sandbox);

  // Rest freezes a template's member. Claim thaws it for the create that has claimed it.
  void Rest(Sandbox& member, Settled done);
  void Claim(Sandbox& member, Settled done);

  // Actions of the machine; the reconciler repeats them. Ask has the spawner freeze or thaw the
  // sandbox. AskReclaim has it move the memory of a paused sandbox to swap, if the sandbox wants
  // that.
  void Ask(const Sandbox& sandbox, bool frozen);
  void AskReclaim(const Sandbox& sandbox);
  // A watcher of the machine: starts and stops the idle watch.
  void OnTransition(Sandbox& sandbox, State before);
  // Starts the idle watch of a running sandbox that the watch does not know yet.
  void WatchIdle(const Sandbox& sandbox);

  const PauseStats& stats() const { return stats_; }

 private:
  struct Ordered {
    uint64_t order = 0;  // number of the latest order; answers to older orders are ignored
    int64_t asked_us = 0;
  };
  void Switch(Sandbox& sandbox, Event event, const char* reason, const char* message,
              const Settled& done);
  void SwitchVisible(const tenants::Caller& caller, const std::string& id, Event event,
                     const char* reason, const char* message, const Settled& done);
  void TakeOver(Sandbox& sandbox, Settled done);
  void OnIdle(const std::string& id);
  // Returns null if the sandbox is gone, or another order is the latest.
  Sandbox* Asked(const std::string& id, uint64_t order);
  uint64_t OrderOf(const Sandbox& sandbox) const;
  void Answered(const std::string& id, uint64_t order, bool frozen, const Status& status);
  void NotAsked(const std::string& id, uint64_t order, const Status& status);
  void Reclaimed(const std::string& id, uint64_t order, const Result<wire::Reclaimed>& reclaimed);

  const Parts parts_;
  const Settings settings_;
  IdleWatch idle_;
  std::unordered_map<const Sandbox*, Ordered> orders_of_;
  uint64_t orders_ = 0;  // number of the latest order
  PauseStats stats_;
  const Guard guard_;
};

}  // namespace atl::sandbox
