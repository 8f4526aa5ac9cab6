// The prepared slots that no sandbox has taken yet.
#pragma once

#include <sys/types.h>

#include <bitset>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/config.h"
#include "runtime/spawner/host.h"
#include "runtime/spawner/janitor.h"
#include "runtime/spawner/poller.h"
#include "runtime/spawner/slot_builder.h"

namespace atl::spawner {

using SlotSet = std::bitset<kMaxSlot + 1>;

struct Slot {
  pid_t execd = -1;
  uint64_t start_time = 0;  // sys::ProcessStartTime of execd
  UniqueFd gate;
  cgroup::Limits limits;  // what the cgroup has now
};

class Slots {
 public:
  struct Prepared {
    UniqueFd rtnetlink;
    wire::StepMicros micros{};
  };
  using Done = std::function<void(Result<Prepared>)>;

  // All borrowed, and outlive it. `in_use` tells the slots that sandboxes have; `in_child` closes
  // what a fork has no business with.
  Slots(const Host& host, Poller& poller, Janitor& janitor, std::function<SlotSet()> in_use,
        std::function<void()> in_child)
      : host_(host),
        poller_(poller),
        janitor_(janitor),
        in_use_(std::move(in_use)),
        in_child_(std::move(in_child)) {}

  Status Start();

  // `control` and `listener` become execd's. kPermissionDenied: they are not the sockets that they
  // should be.
  void Prepare(uint32_t slot, const cgroup::Limits& limits, UniqueFd control, UniqueFd listener,
               Done done);
  // The slot is the caller's from here on; kFailedPrecondition if it is not prepared.
  Result<Slot> Take(uint32_t slot);
  // Ends its execd and waits for that: a millisecond.
  Status Drop(uint32_t slot);
  // The daemon has gone: what it had in stock is dismantled, and what is being built for it when
  // that is done. Does not wait for the builder, which may itself wait for a disk.
  void Abandon();
  // The same, and waits.
  void DropAll();
  // Ends the builder and waits for that: its copies of our descriptors are closed then.
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
    Done done;  // null: abandoned
  };
  // What an earlier spawner or builder has left of a slot.
  Status ClearStray(uint32_t slot);
  void Receive();
  void BuilderDied(const Error& error);

  const Host& host_;
  Poller& poller_;
  Janitor& janitor_;
  std::function<SlotSet()> in_use_;
  std::function<void()> in_child_;
  std::optional<SlotBuilder> builder_;
  std::map<uint32_t, Pending> pending_;
  std::map<uint32_t, Slot> prepared_;
  // By number: we have dismantled it ourselves, so there is nothing of an earlier spawner's.
  SlotSet clean_;
};

}  // namespace atl::spawner
