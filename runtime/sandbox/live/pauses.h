// Whether a sandbox that lives runs or stands still: because a client asked, or because nobody used
// it, and then until somebody does; and what becomes of a paused sandbox's memory.
//
// A paused sandbox's reason says whose the pause is, and survives a restart: IDLE_PAUSED is the
// idle policy's, and the next request ends it; CONTAINER_PAUSED is a client's, and only a resume
// does.
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
#include "runtime/sandbox/record/caller.h"
#include "runtime/sandbox/state/machine.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/sandbox/state/waiters.h"
#include "runtime/sandbox/store/history.h"
#include "runtime/sandbox/store/store.h"
#include "runtime/wire/reply.h"

namespace atl::launch {
class SpawnerClient;
}

namespace atl::sandbox {

struct PauseStats {
  Distribution resume_seconds;  // until a paused one runs, whoever asked
  uint64_t paused = 0;          // because somebody asked
  uint64_t idle_paused = 0;
  uint64_t woken = 0;      // by a request, out of idle_paused
  uint64_t reclaimed = 0;  // of all pauses, whose memory went to swap
  uint64_t kept = 0;       // should have, and did not
  uint64_t reclaimed_bytes = 0;
};

class Pauses {
 public:
  struct Settings {
    // Processor time of the sandbox in a slot, since it began.
    IdleWatch::CpuMicros cpu_micros = [](uint32_t) { return 0; };
    // No path below them is kept in a record's message (private_paths.h).
    std::vector<std::string> private_directories = {};
  };
  // All parts outlive it.
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

  // `done` is called, later or at once, when every process of it stands still, or goes on.
  // kNotFound; kFailedPrecondition: it is in another state. Whoever asks for the same while it is
  // under way waits for it too. A pause of the idle policy's becomes one of whoever asks for it.
  void Pause(const Caller& caller, const std::string& id, Settled done);
  void Resume(const Caller& caller, const std::string& id, Settled done);
  // `done` when it runs, at once if it does. Lets it go on if it Wakes; kNotFound;
  // kFailedPrecondition: it is in another state.
  void Wake(const Caller& caller, const std::string& id, Settled done);

  // A stranger's request to the sandbox, until the last copy is gone: the idle policy does not
  // pause the sandbox meanwhile. The request counts as use once its caller says that the sandbox
  // has answered it well. Null: it has no idle policy.
  std::shared_ptr<IdleWatch::Request> OpenRequest(const Sandbox& sandbox);
  // The same for work of the daemon's, which counts as use from now on.
  std::shared_ptr<const void> Use(const Sandbox& sandbox);

  // A member of a template stands still, or goes on for a create that has claimed it.
  void Rest(Sandbox& member, Settled done);
  void Claim(Sandbox& member, Settled done);

  // Actions of the machine, and what a reconciliation does again: has the spawner freeze or thaw
  // it, and its memory brought to swap if it is paused and that is to be.
  void Ask(const Sandbox& sandbox, bool frozen);
  void AskReclaim(const Sandbox& sandbox);
  // A watcher of the machine: the idle watch follows what runs.
  void OnTransition(Sandbox& sandbox, State before);
  // The same for a sandbox that runs and that the watch does not know yet.
  void WatchIdle(const Sandbox& sandbox);

  const PauseStats& stats() const { return stats_; }

 private:
  struct Ordered {
    uint64_t order = 0;  // the latest: answers to others count no more
    int64_t asked_us = 0;
  };
  void Switch(Sandbox& sandbox, Event event, const char* reason, const char* message,
              const Settled& done);
  void SwitchVisible(const Caller& caller, const std::string& id, Event event, const char* reason,
                     const char* message, const Settled& done);
  void TakeOver(Sandbox& sandbox, Settled done);
  void OnIdle(const std::string& id);
  // Null: the sandbox is gone, or another order counts.
  Sandbox* Asked(const std::string& id, uint64_t order);
  uint64_t OrderOf(const Sandbox& sandbox) const;
  void Answered(const std::string& id, uint64_t order, bool frozen, const Status& status);
  void NotAsked(const std::string& id, uint64_t order, const Status& status);
  void Reclaimed(const std::string& id, uint64_t order, const Result<wire::Reclaimed>& reclaimed);

  const Parts parts_;
  const Settings settings_;
  IdleWatch idle_;
  std::unordered_map<const Sandbox*, Ordered> orders_of_;
  uint64_t orders_ = 0;  // the number of the latest
  PauseStats stats_;
  const Guard guard_;
};

}  // namespace atl::sandbox
