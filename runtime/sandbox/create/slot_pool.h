// Slots: all of a sandbox that no image decides, made ahead because it is most of what a create
// costs: namespaces, id range, cgroup, and an execd that waits for its root. A slot is prepared by
// the spawner and attached by the network, handed out once, and its number rests until the kernel
// has taken the old link down.
//
// Preparing costs the spawner a millisecond that a waiting build would have to wait for too, so the
// pool is refilled when no build is at work and a few milliseconds have passed since the last one
// was handed out (its client is about to send the first command). Only an empty pool prepares while
// somebody waits.
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

namespace atl::launch {
class SpawnerClient;
}

namespace atl::sandbox {

class SlotPool {
 public:
  struct Config {
    uint32_t ready = 8;  // how many are kept prepared
    uint32_t last_slot = netpolicy::kMaxSlot;
    // A number rests at least this long if there is a fresh one to use instead: packets and
    // connections of its last owner may still be on the way.
    int64_t rest_us = 1000 * 1000;
    int64_t refill_delay_us = 20 * 1000;
    std::string socket_directory;  // see slot_sockets.h
    // What a slot's cgroup gets ahead of time: the defaults, so that most builds write no limit.
    cgroup::Limits limits;
  };
  struct Ready {
    uint32_t number = 0;
    UniqueFd control;  // the daemon's end of execd's control socket
  };
  using Taken = std::function<void(Result<Ready> slot)>;

  SlotPool(Loop& loop, const Clock& clock, launch::SpawnerClient& spawner,
           netpolicy::Network& network, const Config& config);
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;
  ~SlotPool();

  // At start, and whenever a new spawner answers: `live` slots belong to sandboxes, `prepared` ones
  // are dropped, because the descriptor through which they could be attached went with the
  // connection that prepared them. Whoever waits goes on waiting.
  void Reset(const std::vector<uint32_t>& live, const std::vector<uint32_t>& prepared);

  // `owned` have sandboxes, `prepared` the spawner has in stock; both are of now. What nobody has
  // any more comes back, what is in stock on one side only is dropped, and links that outlived
  // their slots are removed. Returns how many were wrong.
  struct Wrong {
    uint32_t slots = 0;
    uint32_t links = 0;
  };
  Wrong Mend(const std::vector<uint32_t>& owned, const std::vector<uint32_t>& prepared);

  // Hands out a slot, perhaps before it returns. Waiters are served in order. No number left is
  // kResourceExhausted; kUnavailable: those that nobody has are not usable again within 10 s. When
  // several slots in a row cannot be prepared, the first waiter fails: one alone may still be held
  // by what an earlier daemon had asked for.
  void Take(Taken taken);
  // Nothing is left of it as it was prepared: a sandbox has been built in it, or it was lost.
  void MarkUsed(uint32_t slot) { use_[slot] = Use::kUsed; }
  // The sandbox in `slot` is gone, or there was none: one that was not used is dropped first.
  void Release(uint32_t slot);

  // A create is on its way, whether or not it takes one: stock that can wait does so for a while.
  void GiveWay();
  // While true, nothing is prepared that nobody waits for.
  void SetBusy(bool busy);

  size_t ready() const { return ready_.size(); }
  size_t waiting() const { return waiters_.size(); }
  size_t resting() const { return resting_.size(); }
  uint64_t prepared_total() const { return prepared_total_; }
  // Takes that had to wait.
  uint64_t misses_total() const { return misses_total_; }
  // Durations of the steps of all slots that were prepared.
  const std::array<Distribution, static_cast<size_t>(wire::kFirstBuildStep)>& step_seconds() const {
    return step_seconds_;
  }

 private:
  struct Resting {
    uint32_t slot;
    int64_t since_us;
  };

  struct Waiter {
    Taken taken;
    int64_t since_us = 0;
  };

  enum class Use : uint8_t { kFree, kPreparing, kReady, kTaken, kUsed, kDropping, kResting };

  void Pump();
  void PumpLater(int64_t delay_us);
  // 0: none at present.
  uint32_t PickNumber();
  void Prepare(uint32_t slot);
  void Prepared(Ready slot, const Result<wire::PreparedSlot>& prepared);
  void PrepareFailed(uint32_t slot, Error error);
  // Nobody waits without end for links that linger.
  void GiveUpOldWaiters(int64_t now_us);
  void Discard(uint32_t slot);
  void Detach(uint32_t slot);
  void Rest(uint32_t slot);

  Loop& loop_;
  const Clock& clock_;
  launch::SpawnerClient& spawner_;
  netpolicy::Network& network_;
  const Config config_;

  std::vector<Use> use_;  // by number
  uint32_t fresh_from_ = 1;
  std::deque<Ready> ready_;
  std::deque<Waiter> waiters_;   // oldest first
  std::deque<Resting> resting_;  // oldest first
  size_t preparing_ = 0;
  uint64_t generation_ = 0;  // answers to calls from before a Reset are stale
  bool busy_ = false;
  int64_t last_used_us_ = 0;
  // Answers of the spawner may come after the pool has gone.
  const Guard guard_;
  int failures_in_a_row_ = 0;
  size_t unready_in_a_row_ = 0;  // numbers whose last owner's files are still being deleted
  int64_t retry_at_us_ = 0;      // after a failure nobody waited for
  Loop::Id timer_ = 0;
  uint64_t prepared_total_ = 0;
  uint64_t misses_total_ = 0;
  std::array<Distribution, static_cast<size_t>(wire::kFirstBuildStep)> step_seconds_{};
};

}  // namespace atl::sandbox
