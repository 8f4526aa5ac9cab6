// The prepared slots that no sandbox has taken yet.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host.h"
#include "runtime/spawner/janitor.h"
#include "runtime/spawner/poller.h"
#include "runtime/spawner/slot_builder.h"

namespace atl::spawner {

class Slots {
 public:
  using Prepared = std::function<void(Result<UniqueFd> rtnetlink)>;

  // All borrowed, and outlive it. `in_use` tells whether a sandbox has the slot.
  Slots(const Host& host, Poller& poller, Janitor& janitor, std::function<bool(uint32_t)> in_use)
      : host_(host), poller_(poller), janitor_(janitor), in_use_(std::move(in_use)) {}

  void Prepare(uint32_t slot, const wire::Limits& limits, Prepared done);
  // The slot is the caller's from here on; kFailedPrecondition if it is not prepared.
  Result<Slot> Take(uint32_t slot);
  Status Drop(uint32_t slot);
  // The daemon has gone: what it had in stock is dismantled. Waits for slots that are being built
  // (milliseconds).
  void DropAll();
  // For the end: groups of no slot and no sandbox, which a spawner that died has left.
  void DropStrays();

  // cgroup and upper directory of a slot that nobody uses any more. kFailedPrecondition: a process
  // is still leaving the cgroup, try again.
  Status Dismantle(uint32_t slot);

 private:
  struct Pending {
    SlotBuild build;
    wire::Limits limits;
    Prepared done;
  };
  void Finish(uint32_t slot);

  const Host& host_;
  Poller& poller_;
  Janitor& janitor_;
  std::function<bool(uint32_t)> in_use_;
  std::map<uint32_t, Pending> pending_;
  std::map<uint32_t, Slot> prepared_;
};

}  // namespace atl::spawner
