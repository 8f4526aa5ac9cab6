// Slots: the parts of a sandbox that no image decides, prepared ahead because they are most of the
// cost of a create: namespaces, id range, cgroup, and an execd that waits for its root. The spawner
// prepares a slot, the network attaches it, and one sandbox gets it. Afterwards its number rests
// until the kernel has removed the old link.
//
// The spawner needs a millisecond to prepare a slot, and a waiting build would have to wait for it.
// So the pool refills only when no build is at work and some milliseconds have passed since the
// last slot was taken, because its client is about to send the first command. An empty pool
// prepares slots even while builds wait.
//
// Thread rule: on the loop.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "netpolicy/network.h"
#include "runtime/base/clock.h"
#include "runtime/base/guard.h"
#include "runtime/base/loop.h"
#include "runtime/base/metrics.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/wire/reply.h"
#include "runtime/wire/tier.h"

namespace atl::launch {
class SpawnerClient;
}

namespace atl::sandbox {

class SlotPool {
 public:
  struct Config {
    uint32_t ready = 8;  // number of slots to keep prepared
    uint32_t last_slot = netpolicy::kMaxSlot;
    // Minimum rest of a number while an unused number is available, because packets and connections
    // of its last owner may still be in flight.
    int64_t rest_us = 1000 * 1000;
    int64_t refill_delay_us = 20 * 1000;
    std::string socket_directory;  // see slot_sockets.h
    // The limits that a slot's cgroup gets ahead. They are the defaults, so most builds write no
    // limit.
    cgroup::Limits limits;
    std::string tier{wire::kNamespaceTier};  // the tier of the stock
    // Slots of the stock boot what needs no image (wire::PrepareSlot::ahead).
    bool ahead = false;
  };
  struct Ready {
    uint32_t number = 0;
    std::string tier;
    UniqueFd control;  // the daemon's end of execd's control socket
  };
  using Taken = std::function<void(Result<Ready> slot)>;

  SlotPool(Loop& loop, const Clock& clock, launch::SpawnerClient& spawner,
           netpolicy::Network& network, const Config& config);
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;
  ~SlotPool();

  // Call at start and for each new spawner. Sandboxes own the `live` slots. Drops the `prepared`
  // slots, because the descriptor that could attach them was lost with the connection that prepared
  // them. Waiters keep waiting.
  void Reset(const std::vector<uint32_t>& live, const std::vector<uint32_t>& prepared);

  // Corrects the pool by two present lists: the slots that sandboxes own, and the spawner's stock.
  // Recovers slots that nobody owns, drops slots that are in stock on one side only, and removes
  // links that outlived their slots. Returns the number of corrections.
  struct Wrong {
    uint32_t slots = 0;
    uint32_t links = 0;
  };
  Wrong Mend(const std::vector<uint32_t>& owned, const std::vector<uint32_t>& prepared);

  // Hands out a slot of a tier, possibly before it returns. Only the tier of the stock is prepared
  // ahead. Serves the waiters for one tier in order. kResourceExhausted: all
  // numbers are owned. kUnavailable: free numbers exist, but none became usable within 10 s. If
  // several slots in a row cannot be prepared, the first waiter fails; one failure is not enough,
  // because a request of an earlier daemon may still hold one slot.
  void Take(Taken taken, const std::string& tier = std::string(wire::kNamespaceTier));
  // Marks a slot whose prepared state is consumed: a sandbox was built in it, or it was lost.
  void MarkUsed(uint32_t slot) { use_[slot] = Use::kUsed; }
  // Gives the slot back after its sandbox is gone, or was never built. Drops an unused slot first.
  void Release(uint32_t slot);

  // Call when a create is coming, whether or not it takes a slot: delays the refill.
  void GiveWay();
  // While true, prepares slots only for waiters.
  void SetBusy(bool busy);

  // Returns the processor time that the preparation of a slot took. 0: an earlier daemon has
  // prepared it.
  uint64_t prepared_cpu(uint32_t slot) const { return prepared_cpu_[slot]; }
  size_t ready() const { return ready_.size(); }
  size_t waiting() const { return waiters_.size(); }
  size_t resting() const { return resting_.size(); }
  uint64_t prepared_total() const { return prepared_total_; }
  // Returns the number of takes that had to wait.
  uint64_t misses_total() const { return misses_total_; }
  // Durations of the steps of all prepared slots.
  const std::array<Distribution, static_cast<size_t>(wire::kFirstBuildStep)>& step_seconds() const {
    return step_seconds_;
  }

 private:
  struct Resting {
    uint32_t slot;
    int64_t since_us;
  };

  struct Waiter {
    std::string tier;
    Taken taken;
    int64_t since_us = 0;
  };

  enum class Use : uint8_t { kFree, kPreparing, kReady, kTaken, kUsed, kDropping, kResting };

  void Pump();
  void PumpLater(int64_t delay_us);
  // Returns 0 if no number is usable at present.
  uint32_t PickNumber();
  void Prepare(uint32_t slot, const std::string& tier, bool ahead);
  std::deque<Waiter>::iterator FirstWaiter(const std::string& tier);
  void Prepared(Ready slot, const Result<wire::PreparedSlot>& prepared);
  void PrepareFailed(const Ready& slot, Error error);
  // Fails waiters that have waited too long for links that do not disappear.
  void GiveUpOldWaiters(int64_t now_us);
  void Discard(uint32_t slot);
  void Detach(uint32_t slot);
  void Rest(uint32_t slot);

  Loop& loop_;
  const Clock& clock_;
  launch::SpawnerClient& spawner_;
  netpolicy::Network& network_;
  const Config config_;

  std::vector<Use> use_;  // indexed by slot number
  std::vector<uint64_t> prepared_cpu_;
  uint32_t fresh_from_ = 1;
  std::deque<Ready> ready_;
  std::deque<Waiter> waiters_;   // oldest first
  std::deque<Resting> resting_;  // oldest first
  size_t preparing_ = 0;
  uint64_t generation_ = 0;  // answers to calls from before a Reset are stale
  bool busy_ = false;
  int64_t last_used_us_ = 0;
  // Answers of the spawner may come after this object is gone.
  const Guard guard_;
  int failures_in_a_row_ = 0;
  size_t unready_in_a_row_ = 0;  // numbers whose last owner's files are still being deleted
  int64_t retry_at_us_ = 0;      // after a failure with no waiter
  Loop::Id timer_ = 0;
  uint64_t prepared_total_ = 0;
  uint64_t misses_total_ = 0;
  std::array<Distribution, static_cast<size_t>(wire::kFirstBuildStep)> step_seconds_{};
};

}  // namespace atl::sandbox
