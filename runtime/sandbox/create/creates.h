// Creates sandboxes. Acquires all resources of a checked sandbox, launches it (launch.h), and
// records it before the client gets an answer. A failure before the record gives back all
// resources.
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

// Counts requested sandboxes of one Origin, including children of forks. Repeated Idempotency-Keys
// do not count.
struct OriginStats {
  uint64_t ok = 0;
  uint64_t refused = 0;  // the request was wrong, or there was no room
  uint64_t error = 0;    // the daemon or the host failed
  Distribution seconds;  // durations of the successful ones that did not wait for an image
};

struct CreateStats {
  std::array<OriginStats, kOrigins> origins{};
  // Parts of `refused`: the host had no room.
  uint64_t refused_by_queue = 0, refused_by_host = 0;
  std::array<Distribution, static_cast<size_t>(wire::Step::kCount)> step_seconds{};
};

class Creates {
 public:
  // All parts outlive this object.
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
  // `private_directories`: a record's message names no path below them (private_paths.h). Calls
  // `exited` if process 1 ended before its sandbox was published.
  using Exited = std::function<void(Sandbox& sandbox, const wire::SandboxRecord& record)>;
  Creates(const Parts& parts, std::vector<std::string> private_directories, Exited exited)
      : parts_(parts),
        private_directories_(std::move(private_directories)),
        exited_(std::move(exited)) {
    parts_.registry.OnRemove([this](const Sandbox& sandbox) { parts_.imports.Forget(sandbox.id); });
  }
  Creates(const Creates&) = delete;
  Creates& operator=(const Creates&) = delete;

  // Creates the sandbox, owned by its attempt from now on. The attempt answers when the sandbox
  // runs and its record is committed, or when it fails. `parked`, whose id `checked` has, is
  // claimed; null: the sandbox is built.
  void Begin(Checked checked, const Wanted& wanted, const std::shared_ptr<Attempt>& attempt,
             std::unique_ptr<ParkedSandbox> parked);
  // Begin in two steps, for sandboxes that are built together: Add creates the sandbox, HaveVolumes
  // continues.
  Sandbox& Add(Sandbox sandbox, const std::shared_ptr<Attempt>& attempt,
               std::shared_ptr<Launch> launch);
  void HaveVolumes(const std::string& id, const std::vector<VolumeMount>& mounts,
                   std::shared_ptr<const tenants::Narrowing> narrowing = nullptr);
  // Builds a recorded sandbox again whose entrypoint has never started.
  void BuildAgain(Sandbox& sandbox);

  // Takes back the sandboxes of a failed attempt, and counts and logs the reason.
  void TakeBack(const Attempt& attempt, const CreateError& why);
  Attempt::TakeBack TakesBack() {
    return [this](const Attempt& attempt, const CreateError& why) { TakeBack(attempt, why); };
  }
  // Counts a sandbox that runs now. `took_us`: time since the request.
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
    // Called after the build: records and publishes the sandbox.
    virtual void Built(Sandbox& sandbox);

   private:
    std::string Tier() const override;
    Result<const Sandbox*> Begin(uint32_t slot) override;
    const Sandbox* Begun() override;
    void SlotLost() override;
    void Done(const tl::expected<wire::Built, CreateError>& built) override;

    Creates& creates_;
  };

 private:
  void Acquired(const std::string& id);
  void PullUnlessThere(const Sandbox& sandbox, Launch& launch);
  Status TakeImage(Sandbox& sandbox);
  void Progress(const std::string& id, const std::string& text);
  void Imported(const std::string& id, const Status& imported);
  // Ends the sandbox and answers waiting clients with the error.
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
