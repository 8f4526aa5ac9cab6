// One launch: from the admitted create of a sandbox until its process 1 has said that it runs, or
// until it is known why there will be none. Whatever matters only meanwhile is here and goes with
// it: the image that is waited for, the turn, the slot and those that were lost, the control
// socket.
//
// What comes of it, the owner is told, by host id: it may have forgotten the sandbox meanwhile. A
// launch that is under way then gives back what it has, by itself; it lives as long as an answer
// may come. Who waits for the answer of the create, and what a failure takes back, is the attempt's
// (attempt.h).
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
#include "runtime/sandbox/create/admission.h"
#include "runtime/sandbox/create/builder.h"
#include "runtime/sandbox/create/pending_imports.h"
#include "runtime/sandbox/create/slot_pool.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/volumes/object_volumes.h"

namespace atl::sandbox {

class Launch : public std::enable_shared_from_this<Launch> {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // How far the image is that it waits for; and that it is there, or will not be.
    virtual void Progress(const std::string& id, const std::string& text) = 0;
    virtual void Imported(const std::string& id, const Status& imported) = 0;
    // Its turn: what is to be built in `slot`, whose network is ready. An error: nothing is.
    virtual Result<const Sandbox*> Begin(const std::string& id, uint32_t slot) = 0;
    // What has begun, as it is now; null: nobody wants it any more.
    virtual const Sandbox* Begun(const std::string& id) = 0;
    // One of its buckets could not be mounted, as a client may be told.
    virtual void NotMounted(const std::string& id, Error error) = 0;
    // That slot is none any more, and nothing is in it.
    virtual void SlotLost(const std::string& id) = 0;
    virtual void Built(const std::string& id, const wire::Built& built) = 0;
    // What was to be claimed is nobody's, in that slot.
    virtual void Dispose(const std::string& id, uint32_t slot) = 0;
    // As a client may be told.
    virtual void Failed(const std::string& id, Error error) = 0;
    // What its execd says of the entrypoint, or why it will say nothing.
    virtual void Reported(const std::string& id, Result<wire::StartReport> report) = 0;
  };
  // All parts outlive it.
  struct Parts {
    Owner& owner;
    const Clock& clock;
    PendingImports& imports;
    Admission& admission;
    SlotPool& slots;
    Builder& builder;
    ObjectVolumes& objects;
  };
  struct Order {
    std::string id;                        // its host id
    std::string request_id = {};           // for the log
    std::string awaited_image = {};        // its name; empty: it is there
    images::Credentials registry_as = {};  // who asks for it, should it be pulled
    // To be claimed, its id being that above; null: it is to be built.
    std::unique_ptr<ParkedSandbox> parked = nullptr;
    // As soon as it is built; else it is parked, and Start has to be called.
    bool start = true;
  };
  Launch(const Parts& parts, Order order);
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  // Imported comes, unless StopWaiting is called before.
  void WaitForImage();
  void StopWaiting();
  // Its turn comes, and one of Built and Failed; at once if it is to be claimed.
  void Enqueue();
  // It was built, and nothing has been started in it.
  Status Start(const Sandbox& sandbox) { return control_->Send(StartMessageOf(sandbox)); }
  // It was built, and is known: Reported comes, unless Drain or TakeSocket is called before.
  void Watch();

  // The report, if it has arrived by now.
  std::optional<wire::StartReport> Drain();
  // See ControlChannel.
  UniqueFd TakeSocket(std::string* received) { return control_->TakeSocket(received); }

  // It has begun, and Built, NotMounted or Failed is still to come.
  bool in_flight() const { return in_flight_; }

  const Order& order() const { return order_; }
  // No secret is kept longer than it is needed.
  images::Credentials TakeCredentials() { return std::exchange(order_.registry_as, {}); }
  int64_t asked_us() const { return asked_us_; }

  // The end of process 1, if it overtook the answer to the build.
  void KeepExit(const wire::SandboxRecord& exit) { exit_ = exit; }
  std::optional<wire::SandboxRecord> TakeExit() { return std::exchange(exit_, std::nullopt); }

 private:
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
