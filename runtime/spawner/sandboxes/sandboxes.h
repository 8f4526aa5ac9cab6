// The table of sandboxes: builds, watches, freezes and destroys them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host/host.h"
#include "runtime/spawner/host/tier.h"
#include "runtime/spawner/sandboxes/end_readings.h"
#include "runtime/spawner/sandboxes/reclaims.h"
#include "runtime/spawner/sandboxes/record.h"
#include "runtime/spawner/slot/slots.h"
#include "runtime/wire/reply.h"
#include "runtime/wire/step.h"

namespace atl::wire {
struct Plan;
}

namespace atl::spawner {

class ObjectMounts;
class VolumeWork;
struct RootReport;

class Sandboxes {
 public:
  using Built = std::function<void(Result<wire::Built>)>;
  using Gone = std::function<void(Status)>;
  using Destroyed = std::function<void(Result<wire::Destroyed>)>;
  using Exited = std::function<void(const wire::SandboxRecord&)>;

  // `records`, `ends`: the directories of the record files. All references outlive this object.
  Sandboxes(const Host& host, const Tiers& tiers, EventLoop& loop, UniqueFd records, UniqueFd ends,
            Exited exited)
      : host_(host),
        tiers_(tiers),
        loop_(loop),
        records_(std::move(records)),
        ends_(std::move(ends)),
        exited_(std::move(exited)),
        reclaims_(host.cgroups) {}

  void SetSlots(Slots* slots) { slots_ = slots; }
  void SetObjects(ObjectMounts* objects) { objects_ = objects; }
  void SetVolumeWork(VolumeWork* work) { volume_work_ = work; }

  // Call at start. Takes over what an earlier spawner left: adopts sandboxes whose process 1 is
  // alive, whatever their tier, and kills and removes cgroups that no record explains.
  Status Adopt();

  // Returns the tier of a sandbox. kUnimplemented: the tier cannot do that, or this program does
  // not have it. kNotFound: there is no such sandbox.
  Result<Tier*> TierOf(const std::string& id, Verb verb) const;

  void Build(const wire::Plan& plan, Built done);
  // Changes the limits of a parked sandbox. Errors: see wire::ChangeLimits.
  Status Limit(const std::string& id, const cgroup::Limits& limits);
  // Freezes or thaws a sandbox. Calls `done` when all its processes are frozen, or go on.
  // kDeadlineExceeded: that took more than ten seconds; the cgroup stays as it is.
  void Freeze(const std::string& id, bool frozen, Gone done);
  // Freezes the sandbox for a holder within the spawner, independently of Freeze: it goes on when
  // neither wants it frozen. `done` as that of Freeze. One holder at a time.
  void Hold(const std::string& id, Gone done);
  // Ends the hold. kFailedPrecondition: the sandbox has ended or is about to, so its files may have
  // been on their way out meanwhile.
  Status LetGo(const std::string& id);
  // Returns the id of the living sandbox in the slot, or "".
  std::string LiveIn(uint32_t slot) const;
  // Returns the slot of a living sandbox; 0: there is none of that id.
  uint32_t LiveSlot(const std::string& id) const;
  // A living sandbox that is not being destroyed.
  struct Alive {
    uint32_t slot = 0;
    pid_t pid = 0;  // process 1
    UniqueFd pidfd;
  };
  // kNotFound, kFailedPrecondition: the sandbox does not exist or has ended.
  Result<Alive> Living(const std::string& id) const;
  // While `in_use` returns true, the slot's cgroup is not removed.
  void SetInUse(std::function<bool(uint32_t slot)> in_use) { in_use_ = std::move(in_use); }
  // While `giving_birth` returns true, the slot's cgroup is not frozen, because the process that
  // makes a session there waits for processes that are born in it.
  void SetGivingBirth(std::function<bool(uint32_t slot)> giving_birth) {
    giving_birth_ = std::move(giving_birth);
  }
  // Returns whether the sandbox is frozen, or is to be as soon as no session is being made in it.
  bool StandsStill(const std::string& id) const;
  // Kills and removes the sandbox. Calls `done` with its reading when nothing is left of it, at
  // once for an unknown id. kDeadlineExceeded: its processes have not ended within ten seconds; it
  // is removed when they do. With `keep_reading`, the reading is kept until SettleEnds.
  void Destroy(const std::string& id, bool keep_reading, Destroyed done);
  // Returns the bytes that are charged to the project quotas of living sandboxes. Call only if the
  // store has quotas.
  std::vector<wire::SlotDisk> Disks() const;
  // Forgets readings that the daemon has stored.
  void SettleEnds(const std::vector<std::string>& ids) { ends_.Settle(ids); }
  std::vector<wire::SandboxEnd> OldestEnds() const { return ends_.Oldest(); }
  void DestroyAll(Gone done);

  // A child of ours has ended. Returns true if it was a sandbox's process 1, or a process that
  // empties the cgroup of one.
  bool OnChildExit(pid_t pid, int wait_status);
  // A child of ours was stopped. No process inside can stop process 1, and a stopped process 1
  // serves nobody, so its sandbox is ended, and its record says why. Returns false if it was no
  // sandbox's process 1.
  bool OnChildStop(pid_t pid, int wait_status);

  std::vector<wire::SandboxRecord> List() const;
  SlotSet SlotsInUse() const;
  // Returns the slots of sandboxes that are frozen by anybody but a holder.
  std::vector<uint32_t> FrozenSlots() const;
  // Ends sandboxes whose process 1 is not in its cgroups any more, because they have no limits.
  // Returns their slots.
  std::vector<uint32_t> EndLoose();
  bool LayerInUse(wire::LayerId layer) const;

 private:
  // State of the host's caches that are charged to the sandbox's cgroup, on its removal.
  enum class Caches : uint8_t { kLeft, kBeingEmptied, kEmptied /* or may stay */ };
  struct Sandbox {
    Record record;
    // Present limits. None: it was adopted, or a change has failed half-way.
    std::optional<cgroup::Limits> limits;
    UniqueFd pidfd;  // set for adopted sandboxes, whose exit sends no SIGCHLD
    // Its network namespace, whose last reference would take the counters of its link along.
    UniqueFd network;
    EventLoop::Id exit_watch = 0;
    bool mounting = false;  // a process beside us mounts its root
    bool build_failed = false;
    int stopped_status = 0;  // status of waitpid(2); 0: never stopped
    bool doomed = false;     // is to be destroyed
    bool keep_reading = false;
    std::vector<Destroyed> gone;  // callers of Destroy
    int64_t gone_by_us = 0;
    Caches caches = Caches::kLeft;
    // Callers that wait until the sandbox is frozen, and the deadline of that.
    Gone frozen, held;
    int64_t frozen_by_us = 0;
    bool to_freeze = false;  // freeze once no session is being built in it
    bool has_holder = false;
    bool paused = false;  // stay frozen after the last holder
  };

  Status CheckPlan(const wire::Plan& plan) const;
  // Finishes a build when its root has been mounted, or could not be.
  void Mounted(const std::string& id, int gate, const RootReport& report, wire::Built built,
               const Built& done);
  void FailBuild(const std::string& id, Error error, wire::Step step, const Built& done);
  // Returns for each volume the mount of its bucket, or -1 if it is no bucket.
  Result<std::vector<int>> Buckets(const wire::Plan& plan) const;
  Status ChangeLimits(std::string_view tier, uint32_t slot, const cgroup::Limits& now,
                      const cgroup::Limits& next) const;
  void MarkExited(Sandbox& sandbox, int wait_status, bool code_known);
  // Keeps the sandbox's link until ReadEnd.
  static void HoldLink(Sandbox& sandbox);
  // Reads the counters of a sandbox whose last process is gone. Its group still exists.
  void ReadEnd(Sandbox& sandbox) const;
  // Reads the counters that the end of its processes resets, and stores them in its record: memory,
  // and the bytes of the link.
  void ReadBeforeKill(Record& record) const;
  void ReadLink(Record& record) const;
  void Kill(const std::string& id, const Sandbox& sandbox);
  // Does for adopted sandboxes, whose stops no signal tells of, what OnChildStop does. Finds a stop
  // within a second.
  void LookAtAdopted();
  void LookAtAdoptedLater();
  // Queues a sandbox whose process 1 has ended for removal.
  void Leave(const std::string& id);
  // Returns false if it must be tried again.
  bool TryRemove(const std::string& id);
  // Tries again to remove sandboxes whose processes have not left their cgroup yet.
  void Sweep();
  void SweepAfter(int64_t delay_us);
  // Empties the sandbox's cgroup before its removal, if that is wanted. Returns true while that is
  // not done.
  bool Reclaiming(Sandbox& sandbox);
  // Answers the callers that wait for the freeze, if it is decided. Returns true while it is not.
  bool LookAtFreeze(Sandbox& sandbox);
  Status AskToStand(Sandbox& sandbox);
  Status Thaw(Sandbox& sandbox);
  Status AskTierToFreeze(const Sandbox& sandbox, bool frozen) const;
  // Looks again after `again_us`, then more and more rarely, until the freeze is decided.
  void AwaitFreeze(const std::string& id, int64_t again_us);

  const Host& host_;
  const Tiers& tiers_;
  EventLoop& loop_;
  UniqueFd records_;
  EndReadings ends_;
  Exited exited_;
  Slots* slots_ = nullptr;
  ObjectMounts* objects_ = nullptr;
  VolumeWork* volume_work_ = nullptr;
  std::function<bool(uint32_t)> in_use_;
  std::function<bool(uint32_t)> giving_birth_;
  std::map<std::string, Sandbox> sandboxes_;
  std::map<pid_t, std::string> by_pid_;
  size_t adopted_ = 0;               // sandboxes with a pidfd
  std::string looked_at_;            // id of the last one that LookAtAdopted read
  std::deque<std::string> leaving_;  // ended, and to be destroyed
  EventLoop::Id sweep_ = 0;
  int64_t sweep_due_us_ = 0;
  Reclaims reclaims_;
};

}  // namespace atl::spawner
