// The sandboxes: built, watched, frozen and destroyed here.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host/host.h"
#include "runtime/spawner/host/tier.h"
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
  using Exited = std::function<void(const wire::SandboxRecord&)>;

  // `records`: the directory of the record files. Everything is borrowed and outlives it.
  Sandboxes(const Host& host, const Tiers& tiers, EventLoop& loop, UniqueFd records, Exited exited)
      : host_(host),
        tiers_(tiers),
        loop_(loop),
        records_(std::move(records)),
        exited_(std::move(exited)),
        reclaims_(host.cgroups) {}

  void SetSlots(Slots* slots) { slots_ = slots; }
  void SetObjects(ObjectMounts* objects) { objects_ = objects; }
  void SetVolumeWork(VolumeWork* work) { volume_work_ = work; }

  // At start: takes over what an earlier spawner left. Sandboxes whose process 1 is alive are
  // adopted, whatever their tier; cgroups that no record explains are killed and removed.
  Status Adopt();

  // The tier of a sandbox. kUnimplemented: it cannot do that, or is none of ours; kNotFound.
  Result<Tier*> TierOf(const std::string& id, Verb verb) const;

  void Build(const wire::Plan& plan, Built done);
  // `done` when every process stands still, or goes on. One that does neither within ten seconds
  // is kDeadlineExceeded, and the group stays as it is.
  void Freeze(const std::string& id, bool frozen, Gone done);
  // Holds it still for somebody of ours, beside what Freeze asks for: it goes on when neither wants
  // it to stand. `done` as that of Freeze. One holder at a time.
  void Hold(const std::string& id, Gone done);
  // The holder lets go. kFailedPrecondition: what stood still is no sandbox any more, or about to
  // be none, and its files may have been on their way out meanwhile.
  Status LetGo(const std::string& id);
  // Of whom a slot is, and lives; empty: of nobody's.
  std::string LiveIn(uint32_t slot) const;
  // Of one that lives; 0: there is none of that id.
  uint32_t LiveSlot(const std::string& id) const;
  // Of one that lives and is not on its way out.
  struct Alive {
    uint32_t slot = 0;
    pid_t pid = 0;  // of process 1
    UniqueFd pidfd;
  };
  // kNotFound, kFailedPrecondition.
  Result<Alive> Living(const std::string& id) const;
  // While it says so, a slot's group is not removed.
  void SetInUse(std::function<bool(uint32_t slot)> in_use) { in_use_ = std::move(in_use); }
  // While it says so, a slot's group is not frozen: what is being made in it waits for processes
  // that are born there.
  void SetGivingBirth(std::function<bool(uint32_t slot)> giving_birth) {
    giving_birth_ = std::move(giving_birth);
  }
  // Whether it stands still, or is to as soon as nothing is being made in it.
  bool StandsStill(const std::string& id) const;
  // Kills and removes; `done` when nothing is left. An unknown id is done at once. One whose
  // processes do not end within ten seconds is kDeadlineExceeded, and removed when they do.
  void Destroy(const std::string& id, Gone done);
  void DestroyAll(Gone done);

  // A child of ours has ended. True if it was a sandbox's process 1, or empties one's group.
  bool OnChildExit(pid_t pid, int wait_status);
  // A child of ours was stopped. No process inside can do that to process 1, and one that serves
  // nobody is as good as dead: its sandbox is ended, and its record says why.
  // False if it was no sandbox's process 1.
  bool OnChildStop(pid_t pid, int wait_status);

  std::vector<wire::SandboxRecord> List() const;
  SlotSet SlotsInUse() const;
  // Of sandboxes whose processes have been told to stand still, by whomever but a holder.
  std::vector<uint32_t> FrozenSlots() const;
  // Ends those that are not in their cgroups any more, by whomever: they have no limits. Their
  // slots.
  std::vector<uint32_t> EndLoose();
  bool LayerInUse(wire::LayerId layer) const;

 private:
  // What its group holds in the host's caches, when it is to be removed.
  enum class Caches : uint8_t { kLeft, kBeingEmptied, kEmptied /* or may stay */ };
  struct Sandbox {
    Record record;
    UniqueFd pidfd;  // adopted ones only: their exit is no SIGCHLD of ours
    EventLoop::Id exit_watch = 0;
    bool mounting = false;  // its root, in a process beside us
    bool build_failed = false;
    int stopped_status = 0;  // as waitpid(2) gave it; 0: was never stopped
    bool doomed = false;     // it is to be destroyed
    std::vector<Gone> gone;  // wait for that
    int64_t gone_by_us = 0;
    Caches caches = Caches::kLeft;
    // Who waits until it stands still, and since when that may take too long.
    Gone frozen, held;
    int64_t frozen_by_us = 0;
    bool to_freeze = false;  // as soon as nothing is being made in it
    bool has_holder = false;
    bool paused = false;  // while there is a holder: it is to stand still without one, too
  };

  Status CheckPlan(const wire::Plan& plan) const;
  // Finishes a build when its root has been mounted, or could not be.
  void Mounted(const std::string& id, int gate, const RootReport& report, wire::Built built,
               const Built& done);
  void FailBuild(const std::string& id, Error error, wire::Step step, const Built& done);
  // For each volume its mount, or -1 if it is no bucket.
  Result<std::vector<int>> Buckets(const wire::Plan& plan) const;
  Status ChangeLimits(uint32_t slot, const cgroup::Limits& now, const cgroup::Limits& next) const;
  void MarkExited(Sandbox& sandbox, int wait_status, bool code_known);
  void Kill(const std::string& id, const Sandbox& sandbox);
  // The same as OnChildStop for sandboxes that were adopted, of which no signal tells. Within a
  // second.
  void LookAtAdopted();
  void LookAtAdoptedLater();
  // Has ended, and is to be taken down.
  void Leave(const std::string& id);
  // False: not yet.
  bool TryRemove(const std::string& id);
  // Looks again at what takes processes some time: leaving their cgroup.
  void Sweep();
  void SweepAfter(int64_t delay_us);
  // Empties the group of one that is to be removed, if that is wanted. True: not yet done.
  bool Reclaiming(Sandbox& sandbox);
  // Answers who waits for the freeze, if there is something to say. True: not yet.
  bool LookAtFreeze(Sandbox& sandbox);
  Status AskToStand(Sandbox& sandbox);
  Status Thaw(Sandbox& sandbox);
  Status AskTierToFreeze(const Sandbox& sandbox, bool frozen) const;
  // Looks until it stands still, or will not: after `again_us`, then more and more rarely.
  void AwaitFreeze(const std::string& id, int64_t again_us);

  const Host& host_;
  const Tiers& tiers_;
  EventLoop& loop_;
  UniqueFd records_;
  Exited exited_;
  Slots* slots_ = nullptr;
  ObjectMounts* objects_ = nullptr;
  VolumeWork* volume_work_ = nullptr;
  std::function<bool(uint32_t)> in_use_;
  std::function<bool(uint32_t)> giving_birth_;
  std::map<std::string, Sandbox> sandboxes_;
  std::map<pid_t, std::string> by_pid_;
  size_t adopted_ = 0;               // with a pidfd
  std::string looked_at_;            // the last of them that was
  std::deque<std::string> leaving_;  // ended and doomed
  EventLoop::Id sweep_ = 0;
  int64_t sweep_due_us_ = 0;
  Reclaims reclaims_;
};

}  // namespace atl::spawner
