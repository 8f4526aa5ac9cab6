// The prepared slots that no sandbox has taken yet, and the builder that makes them.
#pragma once

#include <sys/types.h>

#include <bitset>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host/host.h"
#include "runtime/spawner/host/tier.h"
#include "runtime/spawner/rules/config.h"
#include "runtime/spawner/slot/slot_builder.h"
#include "runtime/spawner/store/janitor.h"
#include "runtime/wire/request.h"

namespace atl::spawner {

using SlotSet = std::bitset<kMaxSlot + 1>;

struct Slot {
  pid_t execd = -1;
  uint64_t start_time = 0;  // sys::ProcessStartTime of execd
  UniqueFd gate;
  cgroup::Limits limits;  // present limits of the cgroup
  Tier* tier = nullptr;   // the tier that prepared it; borrowed
};

// Checks that a descriptor from the daemon is a Unix stream socket, connected or listening as it
// should be, or invalid. So not even a hostile daemon can hand a sandbox a file or directory of the
// host.
Status CheckSocket(int fd, bool listening);

class Slots {
 public:
  using Done = std::function<void(Result<wire::PreparedSlot>)>;

  // All references are borrowed and outlive this object. `in_use` returns the slots of sandboxes.
  Slots(const Host& host, const Tiers& tiers, EventLoop& loop, Janitor& janitor,
        std::function<SlotSet()> in_use)
      : host_(host), tiers_(tiers), loop_(loop), janitor_(janitor), in_use_(std::move(in_use)) {}

  Status Start();
  // `leaving` is called with each slot before it is dismantled.
  void OnDismantle(std::function<void(uint32_t slot)> leaving) { leaving_ = std::move(leaving); }

  // kPermissionDenied: the descriptors for execd are not the expected sockets. kUnimplemented: the
  // tier cannot prepare slots on this host.
  void Prepare(wire::PrepareSlot message, Done done);
  // Hands the slot to the caller. kFailedPrecondition: it is not prepared, or by another tier; it
  // then stays in stock.
  Result<Slot> Take(uint32_t slot, const Tier* tier);
  bool InStock(uint32_t slot) const { return prepared_.contains(slot); }
  // Dismantles a slot in stock. Waits for the end of its execd: a millisecond, at most a second.
  Status Drop(uint32_t slot);
  // The daemon has gone: dismantles its stock now, and slots that are being built for it when they
  // are done. Does not wait for the builder, which may itself wait for a disk.
  void Abandon();
  // The same, and waits some seconds at most for the builder.
  void DropAll();
  // Ends the builder after its present slot, or after some seconds. Waits for that.
  void StopBuilder();
  // Returns the numbers of the slots in stock.
  std::vector<uint32_t> Stock() const;
  // Removes cgroups and upper directories of slots that are neither in stock nor being made nor a
  // sandbox's, processes included: leftovers of a spawner or builder that died, or of a removal
  // that failed. What has not ended yet is found by the next call. Returns their slots.
  Result<std::vector<uint32_t>> RemoveStrays();

  // Removes cgroup and upper directory of a slot that nobody uses any more. EBUSY: a process is
  // still leaving the cgroup; try again.
  Status Dismantle(uint32_t slot);

  // A child of ours has ended. Returns true if it was the builder, or the execd of a slot in stock.
  bool OnChildExit(pid_t pid);

 private:
  struct Pending {
    cgroup::Limits limits;
    Tier* tier = nullptr;
    Done done;           // null: abandoned
    bool asked = false;  // it has been passed to the builder
  };
  // Removes what an earlier spawner or builder has left of a slot.
  Status ClearStray(uint32_t slot);
  void Receive();
  // Passes waiting requests to the builder, a few at a time, because a builder that does not read
  // must not block us.
  void AskBuilder();
  void BuilderDied(const Error& error);

  const Host& host_;
  const Tiers& tiers_;
  EventLoop& loop_;
  Janitor& janitor_;
  std::function<SlotSet()> in_use_;
  std::function<void(uint32_t)> leaving_;
  std::optional<SlotBuilder> builder_;
  EventLoop::Id builder_watch_ = 0;
  std::map<uint32_t, Pending> pending_;
  std::deque<wire::PrepareSlot> waiting_;  // requests that the builder has not got yet
  size_t asked_ = 0;
  std::map<uint32_t, Slot> prepared_;
  // Slots that this spawner has dismantled itself, so that nothing of an earlier one is left.
  SlotSet clean_;
};

}  // namespace atl::spawner
