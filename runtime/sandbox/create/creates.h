// Sandboxes on their way: all that a checked one needs is acquired, it is recorded before a client
// hears of it, and launched (launch.h). Whatever fails before the record gives all of it back.
//
// Thread rule: on the loop; nothing blocks.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "images/puller.h"
#include "netpolicy/network.h"
#include "runtime/base/clock.h"
#include "runtime/base/guard.h"
#include "runtime/base/metrics.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/create/check.h"
#include "runtime/sandbox/create/launch.h"
#include "runtime/sandbox/create/launches.h"
#include "runtime/sandbox/create/pending_imports.h"
#include "runtime/sandbox/live/vaults.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/state/attempts.h"
#include "runtime/sandbox/state/expiry.h"
#include "runtime/sandbox/state/host_budget.h"
#include "runtime/sandbox/state/layers.h"
#include "runtime/sandbox/state/machine.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/sandbox/state/waiters.h"
#include "runtime/sandbox/store/history.h"
#include "runtime/sandbox/volumes/object_volumes.h"
#include "runtime/sandbox/volumes/volumes.h"
#include "runtime/wire/reply.h"

namespace atl::sandbox {

// Sandboxes of one Origin that were asked for, children of forks among them. Repeats of an
// Idempotency-Key do not count.
struct OriginStats {
  uint64_t ok = 0;
  uint64_t refused = 0;  // for what the request says or for want of room
  uint64_t error = 0;    // for a fault of ours or of the host's
  Distribution seconds;  // over those that are ok and did not wait for an image
};

struct CreateStats {
  std::array<OriginStats, kOrigins> origins{};
  // Part of `refused`: the host had no room.
  uint64_t refused_by_queue = 0, refused_by_host = 0;
  std::array<Distribution, static_cast<size_t>(wire::Step::kCount)> step_seconds{};
};

class Creates {
 public:
  // All parts outlive it.
  struct Parts {
    const Clock& clock;
    netpolicy::Network& network;
    const images::ImageStore& images;
    images::Puller& puller;
    PendingImports& imports;
    Volumes& volumes;
    ObjectVolumes& objects;
    History& history;
    Vaults& vaults;
    Expiry& expiry;
    Launch::Parts launch;
    Registry& registry;
    Room& room;
    Layers& layers;
    Machine& machine;
    Waiters& waiters;
    Attempts& attempts;
    Launches& launches;
    const Check& check;
  };
  // `private_directories`: no path below them is kept in a record's message (private_paths.h).
  // `exited` is told that process 1 had ended before its sandbox was published.
  using Exited = std::function<void(Sandbox& sandbox, const wire::SandboxRecord& record)>;
  Creates(const Parts& parts, std::vector<std::string> private_directories, Exited exited)
      : parts_(parts),
        private_directories_(std::move(private_directories)),
        exited_(std::move(exited)) {
    parts_.registry.OnRemove(
        [this](const Sandbox& sandbox) { parts_.imports.Forget(sandbox.spec.image, sandbox.id); });
  }
  Creates(const Creates&) = delete;
  Creates& operator=(const Creates&) = delete;

  // From here on the sandbox exists, as its attempt's; the attempt answers when it runs, and its
  // record is safe, or fails. `parked`, which `checked` has the id of, is claimed; null: it is
  // built.
  void Begin(Checked checked, const Wanted& wanted, const std::shared_ptr<Attempt>& attempt,
             std::unique_ptr<ParkedSandbox> parked);
  // The same in two steps, for those that are built together: it exists, and it goes on.
  Sandbox& Add(Sandbox sandbox, const std::shared_ptr<Attempt>& attempt,
               std::shared_ptr<Launch> launch);
  void HaveVolumes(const std::string& id, const std::vector<VolumeMount>& mounts);
  // One that is recorded, and whose entrypoint has never started, is built once more.
  void BuildAgain(Sandbox& sandbox);

  // Takes back the sandboxes of an attempt that makes some, and counts and logs why.
  void TakeBack(const Attempt& attempt, const CreateError& why);
  Attempt::TakeBack TakesBack() {
    return [this](const Attempt& attempt, const CreateError& why) { TakeBack(attempt, why); };
  }
  // One that runs at last; it was asked for so long ago.
  void CountOk(Origin origin, int64_t took_us);

  // Actions of the machine.
  void AwaitImage(Sandbox& sandbox);
  void Enqueue(Sandbox& sandbox) { parts_.launches.Find(sandbox)->Enqueue(); }
  void Publish(Sandbox& sandbox);

  const CreateStats& stats() const { return stats_; }

  // The launch of a create.
  class Build : public Launch {
   public:
    Build(Creates& creates, Order order)
        : Launch(creates.parts_.launch, std::move(order)), creates_(creates) {}

   protected:
    // It is built: is to be recorded, and published.
    virtual void Built(Sandbox& sandbox);

   private:
    Result<const Sandbox*> Begin(uint32_t slot) override;
    const Sandbox* Begun() override;
    void SlotLost() override;
    void Done(const tl::expected<wire::Built, CreateError>& built) override;

    Creates& creates_;
  };

 private:
  void Acquired(const std::string& id);
  void PullUnlessThere(const std::string& image, Launch& launch);
  Status TakeImage(Sandbox& sandbox);
  void Progress(const std::string& id, const std::string& text);
  void Imported(const std::string& id, const Status& imported);
  // Nothing comes of it, and whoever waits is told why.
  void Refuse(Sandbox& sandbox, const CreateError& error);
  // Ends a sandbox that no client was told of.
  void Abandon(Sandbox& sandbox, const Cause& cause);
  Cause CauseOf(const Error& error) const;

  const Parts parts_;
  const std::vector<std::string> private_directories_;
  const Exited exited_;
  CreateStats stats_;
  const Guard guard_;
};

}  // namespace atl::sandbox
