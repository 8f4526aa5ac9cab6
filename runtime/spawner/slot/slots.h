// The prepared slots that no sandbox has taken yet.
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
  cgroup::Limits limits;  // what the cgroup has now
  Tier* tier = nullptr;   // that has prepared it; borrowed
};

// Descriptors that go into a sandbox come from the daemon: Unix stream sockets, connected or
// listening as they should be, or nothing, so that not even a hostile daemon can hand a sandbox a
// file or directory of the host.
Status CheckSocket(int fd, bool listening);

class Slots {
 public:
  using Done = std::function<void(Result<wire::PreparedSlot>)>;

  // All borrowed, and outlive it. `in_use` tells the slots that sandboxes have.
  Slots(const Host& host, const Tiers& tiers, EventLoop& loop, Janitor& janitor,
        std::function<SlotSet()> in_use)
      : host_(host), tiers_(tiers), loop_(loop), janitor_(janitor), in_use_(std::move(in_use)) {}

  Status Start();
  // Called with each slot before it is dismantled.
  void OnDismantle(std::function<void(uint32_t slot)> leaving) { leaving_ = std::move(leaving); }

  // kPermissionDenied: what is to become execd's are not the sockets that they should be.
  // kUnimplemented: the tier cannot prepare slots here.
  void Prepare(wire::PrepareSlot message, Done done);
  // The slot is the caller's from here on. kFailedPrecondition: it is not prepared, or by another
  // tier; it then stays in stock.
  Result<Slot> Take(uint32_t slot, const Tier* tier);
  bool InStock(uint32_t slot) const { return prepared_.contains(slot); }
  // Ends its execd and waits for that: a millisecond, and not longer than a second.
  Status Drop(uint32_t slot);
  // The daemon has gone: what it had in stock is dismantled, and what is being built for it when
  // that is done. Does not wait for the builder, which may itself wait for a disk.
  void Abandon();
  // The same, and waits for the builder, but not for more than some seconds.
  void DropAll();
  // Ends the builder when it has made the slot that it is at, or after some seconds. Waits for
  // that.
  void StopBuilder();
  // In stock.
  std::vector<uint32_t> Stock() const;
  // Groups and upper directories of slots that are neither in stock nor being made nor a sandbox's:
  // what a spawner or builder that died, or a removal that failed, has left. They are removed,
  // processes included; what is still on its way out is there the next time. Their slots.
  Result<std::vector<uint32_t>> RemoveStrays();

  // cgroup and upper directory of a slot that nobody uses any more. EBUSY: a process is still
  // leaving the cgroup, try again.
  Status Dismantle(uint32_t slot);

  // A child of ours has ended. True if it was the builder, or the execd of a slot in stock.
  bool OnChildExit(pid_t pid);

 private:
  struct Pending {
    cgroup::Limits limits;
    Tier* tier = nullptr;
    Done done;           // null: abandoned
    bool asked = false;  // the builder has it
  };
  // What an earlier spawner or builder has left of a slot.
  Status ClearStray(uint32_t slot);
  void Receive();
  // Passes on what waits, a few at a time: a builder that does not read must not hold us up.
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
  std::deque<wire::PrepareSlot> waiting_;  // of these, what the builder has not been asked for
  size_t asked_ = 0;
  std::map<uint32_t, Slot> prepared_;
  // By number: we have dismantled it ourselves, so there is nothing of an earlier spawner's.
  SlotSet clean_;
};

}  // namespace atl::spawner
