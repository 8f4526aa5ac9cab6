// The sandboxes: built, watched, frozen and destroyed here.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host.h"
#include "runtime/spawner/poller.h"
#include "runtime/spawner/reclaims.h"
#include "runtime/spawner/record.h"
#include "runtime/spawner/slots.h"
#include "runtime/wire/plan.h"
#include "runtime/wire/spawner.h"

namespace atl::spawner {

class Sandboxes {
 public:
  struct BuildOutcome {
    Status status;
    wire::Step step = wire::Step::kCount;  // where it failed
    uint32_t pid = 0;
    wire::StepMicros micros{};
  };
  using Built = std::function<void(const BuildOutcome&)>;
  using Gone = std::function<void(Status)>;
  using Exited = std::function<void(const wire::SandboxRecord&)>;

  // `records`: the directory of the record files. Everything is borrowed and outlives it.
  Sandboxes(const Host& host, Poller& poller, UniqueFd records, Exited exited)
      : host_(host),
        poller_(poller),
        records_(std::move(records)),
        exited_(std::move(exited)),
        reclaims_(host.cgroups) {}

  void SetSlots(Slots* slots) { slots_ = slots; }

  // At start: takes over what an earlier spawner left. Sandboxes whose process 1 is alive are
  // adopted; cgroups that no record explains are killed and removed.
  Status Adopt();

  void Build(const wire::Plan& plan, Built done);
  // `done` when every process stands still, or goes on. One that does neither within ten seconds
  // is kDeadlineExceeded, and the group stays as it is.
  void Freeze(const std::string& id, bool frozen, Gone done);
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
  // The same for sandboxes that were adopted, of which no signal tells: to be called from time to
  // time while there are any.
  bool HasAdopted() const { return adopted_ > 0; }
  void LookAtAdopted();
  // Looks again at what takes processes some time: leaving their cgroup, standing still. True while
  // there is such work.
  bool Sweep();

  std::vector<wire::SandboxRecord> List() const;
  SlotSet SlotsInUse() const;
  // Of sandboxes whose processes have been told to stand still, by whomever.
  std::vector<uint32_t> FrozenSlots() const;
  bool LayerInUse(wire::LayerId layer) const;

 private:
  // What its group holds in the host's caches, when it is to be removed.
  enum class Caches : uint8_t { kLeft, kBeingEmptied, kEmptied /* or may stay */ };
  struct Sandbox {
    Record record;
    UniqueFd pidfd;  // adopted ones only: their exit comes by poll, not by SIGCHLD
    bool build_failed = false;
    int stopped_status = 0;  // as waitpid(2) gave it; 0: was never stopped
    bool doomed = false;     // it is to be destroyed
    std::vector<Gone> gone;  // wait for that
    int64_t gone_by_us = 0;
    Caches caches = Caches::kLeft;
    Gone frozen;  // somebody waits until it stands still
    int64_t frozen_by_us = 0;
  };

  Status CheckPlan(const wire::Plan& plan) const;
  Status ChangeLimits(uint32_t slot, const cgroup::Limits& now, const cgroup::Limits& next) const;
  void MarkExited(Sandbox& sandbox, int wait_status, bool code_known);
  void Kill(const std::string& id, const Sandbox& sandbox);
  void TryRemove(const std::string& id);
  // Empties the group of one that is to be removed, if that is wanted. True: not yet done.
  bool Reclaiming(Sandbox& sandbox);
  // Answers who waits for the freeze, if there is something to say. True: not yet.
  bool LookAtFreeze(Sandbox& sandbox);

  const Host& host_;
  Poller& poller_;
  UniqueFd records_;
  Exited exited_;
  Slots* slots_ = nullptr;
  std::map<std::string, Sandbox> sandboxes_;
  std::map<pid_t, std::string> by_pid_;
  size_t adopted_ = 0;  // with a pidfd
  Reclaims reclaims_;
};

}  // namespace atl::spawner
