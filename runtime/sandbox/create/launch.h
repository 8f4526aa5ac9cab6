// One launch: from the admitted request for a sandbox until its process 1 has said that it runs, or
// until it is known why there will be none. What matters only meanwhile is here and goes with it:
// the turn, the slot and those that were lost, the control socket. What is launched, and what
// follows, a derived class says: a create (creates.h), a rollback (rollbacks.h).
//
// A launch that is under way lives as long as an answer may come. If nobody wants its sandbox any
// more it gives back what it has, by itself. Who waits for the answer to the request, and what a
// failure takes back, is the attempt's (attempt.h).
//
// Thread rule: on the loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/create/admission.h"
#include "runtime/sandbox/create/builder.h"
#include "runtime/sandbox/create/orphans.h"
#include "runtime/sandbox/create/slot_pool.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/state/attempt.h"
#include "runtime/sandbox/volumes/object_volumes.h"

namespace atl::sandbox {

class Launch : public std::enable_shared_from_this<Launch> {
 public:
  // All parts outlive it.
  struct Parts {
    const Clock& clock;
    Admission& admission;
    SlotPool& slots;
    Builder& builder;
    ObjectVolumes& objects;
    Orphans& orphans;
  };
  struct Order {
    std::string host_id;
    std::string request_id = {};  // for the log
    Origin origin = Origin::kCold;
    std::string awaited_image = {};        // its name; empty: it is there
    images::Credentials registry_as = {};  // who asks for it, should it be pulled
    // To be claimed, its host id being that above; null: it is to be built.
    std::unique_ptr<ParkedSandbox> parked = nullptr;
    // As soon as it is built; else it is parked, and Start has to be called.
    bool start = true;
  };
  Launch(const Parts& parts, Order order);
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  virtual ~Launch() = default;

  // Its turn comes, and Done; at once if it is to be claimed.
  void Enqueue();
  // It was built, and nothing has been started in it.
  Status Start(const Sandbox& sandbox) { return control_->Send(StartMessageOf(sandbox)); }
  // It was built, and is known: `reported` is called with what its execd says of the entrypoint, or
  // with why it will say nothing, unless Drain or TakeSocket is called before.
  void Watch(std::function<void(const Result<wire::StartReport>& report)> reported);

  // The report, if it has arrived by now.
  std::optional<wire::StartReport> Drain();
  // See ControlChannel.
  UniqueFd TakeSocket(std::string* received) { return control_->TakeSocket(received); }

  // It has begun, and Done is still to come.
  bool in_flight() const { return in_flight_; }

  const Order& order() const { return order_; }
  // No secret is kept longer than it is needed.
  images::Credentials TakeCredentials() { return std::exchange(order_.registry_as, {}); }
  int64_t asked_us() const { return asked_us_; }

  // The end of process 1, if it overtook the answer to the build.
  void KeepExit(const wire::SandboxRecord& exit) { exit_ = exit; }
  std::optional<wire::SandboxRecord> TakeExit() { return std::exchange(exit_, std::nullopt); }

 private:
  // Its turn: what is to be built in `slot`, whose network is ready. An error: nothing is.
  virtual Result<const Sandbox*> Begin(uint32_t slot) = 0;
  // What has begun, as it is now; null: nobody wants it any more.
  virtual const Sandbox* Begun() = 0;
  // The slot was lost. It holds no process and no mount; another may come.
  virtual void SlotLost() = 0;
  // How long the steps of the build took; or why there is none, as a client may be told.
  virtual void Done(const tl::expected<wire::Built, CreateError>& built) = 0;

  void Fail(Error error);
  void Claim();
  void TakeTurn();
  void GotSlot(Result<SlotPool::Ready> slot);
  void MountBuckets(const Sandbox& sandbox);
  void Mounted(Status mounted);
  void Build(const Result<const Sandbox*>& begun, SlotPool::Ready slot);
  void Built(uint32_t slot, Result<BuiltSandbox> result);
  void EndTurn();

  const Parts parts_;
  Order order_;
  const int64_t asked_us_;
  bool in_flight_ = false;
  int lost_slots_ = 0;
  SlotPool::Ready slot_;                     // while its buckets are mounted
  std::unique_ptr<ControlChannel> control_;  // once it is built
  std::optional<wire::SandboxRecord> exit_;
};

}  // namespace atl::sandbox
