// One launch: from the admitted request for a sandbox until its process 1 reports that it runs, or
// until the launch fails. Holds the state that only a launch needs: the turn, the slot, lost slots,
// the control socket. A derived class says what is launched and what follows: a create (creates.h)
// or a rollback (rollbacks.h).
//
// A launch in flight lives until no answer can come any more. If its sandbox is cancelled, the
// launch itself gives back what it holds. The attempt (attempt.h) knows the clients that wait for
// the answer, and takes back the sandbox after a failure.
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
  // All parts outlive this object.
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
    std::string tenant;           // the owner, in whose line it waits for its turn
    std::string request_id = {};  // names the request in the log
    Origin origin = Origin::kCold;
    std::string awaited_image = {};        // ImageKey of the image to wait for; empty: none
    std::string names_of = {};             // tenant whose name the image's is
    images::Credentials registry_as = {};  // credentials for a pull of the image
    // The parked sandbox to claim, which has the host id above; null: build a new one.
    std::unique_ptr<ParkedSandbox> parked = nullptr;
    // True: starts the entrypoint as soon as the sandbox is built. False: parks the sandbox until
    // Start is called.
    bool start = true;
  };
  Launch(const Parts& parts, Order order);
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  virtual ~Launch() = default;

  // Queues for a turn; Done follows. A claim needs no turn and begins at once. It asks the spawner
  // only if the parked sandbox has other limits, and is built like other creates if that fails.
  void Enqueue();
  // Starts the entrypoint of a sandbox that was built with `start` false.
  Status Start(const Sandbox& sandbox) { return control_->Send(StartMessageOf(sandbox)); }
  // Call once the sandbox is built and registered. Calls `reported` with execd's report about the
  // entrypoint, or with the reason why there is none, unless Drain or TakeSocket is called before.
  void Watch(std::function<void(const Result<wire::StartReport>& report)> reported);

  // Returns the report if it has already arrived.
  std::optional<wire::StartReport> Drain();
  // See ControlChannel.
  UniqueFd TakeSocket(std::string* received) { return control_->TakeSocket(received); }

  // True once Begin has succeeded, until Done.
  bool in_flight() const { return in_flight_; }

  const Order& order() const { return order_; }
  // Moves the credentials out, so no secret is kept longer than needed.
  images::Credentials TakeCredentials() { return std::exchange(order_.registry_as, {}); }
  int64_t asked_us() const { return asked_us_; }

  // Keeps an exit of process 1 that overtook the answer to the build.
  void KeepExit(const wire::SandboxRecord& exit) { exit_ = exit; }
  std::optional<wire::SandboxRecord> TakeExit() { return std::exchange(exit_, std::nullopt); }

 private:
  // The tier of the slot that it needs.
  virtual std::string Tier() const = 0;
  // Called at its turn: returns the sandbox to build in `slot`, whose network is ready. An error:
  // nothing is built.
  virtual Result<const Sandbox*> Begin(uint32_t slot) = 0;
  // Returns the sandbox being launched, or null if its client has cancelled it.
  virtual const Sandbox* Begun() = 0;
  // The slot was lost. It holds no process and no mount. The launch may get another slot.
  virtual void SlotLost() = 0;
  // The launch has ended: durations of the build's steps, or an error that a client may see.
  virtual void Done(const tl::expected<wire::Built, CreateError>& built) = 0;

  void Fail(Error error);
  void Claim();
  void Limited(ParkedSandbox& parked, Status limited);
  void StartParked(ParkedSandbox& parked, const Sandbox& sandbox);
  // Destroys a parked sandbox that could not take the limits, and builds another in its place.
  void BuildInstead(ParkedSandbox& parked, const Error& why);
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
  SlotPool::Ready slot_;                     // while its buckets are being mounted
  std::unique_ptr<ControlChannel> control_;  // set once the sandbox is built
  std::optional<wire::SandboxRecord> exit_;
};

}  // namespace atl::sandbox
