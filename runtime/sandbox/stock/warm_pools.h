// Pools: whole sandboxes of an image that are built ahead and wait, parked, for the create that
// claims them. A member has all that image and limits decide; what tells one sandbox from another
// (argv, environment, tokens, network policy, labels) comes with the claim, so nothing of one
// client is ever in what another one gets. A member is handed out once.
//
// A member is known to the spawner as any sandbox and has no record: a daemon that dies leaves
// orphans, which the next one destroys, and builds new ones. Members are built one at a time, when
// no create is at work and the last one's client has had its first output; what they are promised
// of the host they give up as soon as a create needs it.
//
// A pool has a name and a record; or it made itself, because creates ask for that image and those
// limits, and goes when they do no more. Of such a one nobody hears but the metrics.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/guard.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/create/admission.h"
#include "runtime/sandbox/create/builder.h"
#include "runtime/sandbox/create/check.h"
#include "runtime/sandbox/create/orphans.h"
#include "runtime/sandbox/create/slot_pool.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/state/host_budget.h"
#include "runtime/sandbox/store/pool_store.h"

namespace atl::sandbox {

struct PoolStats {
  uint64_t built = 0;
  uint64_t claimed = 0;
  uint64_t cold = 0;  // creates of a pool that had no member for them
  uint64_t disposed = 0;
};

class WarmPools {
 public:
  // All parts outlive it.
  struct Parts {
    Loop& loop;
    const Clock& clock;
    Admission& admission;
    SlotPool& slots;
    Builder& builder;
    PoolStore& store;
    const Room& room;
    const Check& check;
    Orphans& orphans;
  };
  struct View {
    PoolRecord record;
    uint32_t allocated = 0;  // sandboxes that were made of it and live
    uint32_t available = 0;
    std::string trouble;  // why it is not being filled; empty: nothing keeps it
  };
  // `most_members`: of all pools together; `most_automatic`: pools that may make themselves.
  WarmPools(const Parts& parts, uint32_t most_members, uint32_t most_automatic)
      : parts_(parts), most_members_(most_members), most_automatic_(most_automatic) {}
  WarmPools(const WarmPools&) = delete;
  WarmPools& operator=(const WarmPools&) = delete;
  ~WarmPools() { parts_.loop.Cancel(timer_); }

  Status Load();

  // kAlreadyExists; kInvalidArgument: the bounds, or they are more than may be kept; as
  // Check::PoolMember.
  Status Create(PoolRecord record);
  // kNotFound, and as above.
  Status Resize(const std::string& name, const PoolCapacity& capacity);
  // kFailedPrecondition: sandboxes of it live.
  Status Remove(const std::string& name);
  std::optional<View> Find(const std::string& name) const;
  std::vector<View> List() const;
  const PoolRecord* RecordOf(const std::string& name) const;
  // A pool that is filled with that image; null: none.
  const PoolRecord* UserOf(const std::string& image) const;

  // What a create that names a pool asks for, with what the pool says and the request does not.
  // kInvalidArgument: another image than the pool's; else as CheckRoom.
  Result<Wanted> Fill(const Wanted& wanted) const;
  // Whether another sandbox may be made of it. kResourceExhausted: it has as many as it may.
  Status CheckRoom(const std::string& name) const;
  // A member for that create, whose id `checked` then has: of the pool that it names, or of one
  // that made itself. Null: it is to be built. Either way the pool that it names counts it from now
  // on.
  std::unique_ptr<ParkedSandbox> Claim(Checked* checked, const Wanted& wanted);
  // A member that is what `wanted` says, which is the caller's from now on; null: a cold create.
  std::unique_ptr<ParkedSandbox> Take(const std::string& name, const Sandbox& wanted);
  // The same of the pool of its image and limits that makes itself, now if there is none yet.
  std::unique_ptr<ParkedSandbox> TakeAutomatic(
      const Sandbox& wanted, const std::map<std::string, std::string>& resource_limits);
  // Sandboxes that were made of pools, as they come and go; and a watcher of the machine for that.
  void Hold(const Sandbox& sandbox);
  void Drop(const Sandbox& sandbox);
  void OnTransition(const Sandbox& sandbox, State before);

  // A create is on its way: nothing is built for a while, and members go if it needs their room.
  void GiveWay();
  // From time to time: members that are not what their pools would have now go; others are built.
  void Look();
  // A new spawner, or none of what it has is known: every member is forgotten, and no one's.
  void Reset();
  // Nothing is built any more.
  void Stop() { stopped_ = true; }

  // Of a member that is parked or being built.
  bool Knows(const std::string& id) const;
  std::vector<uint32_t> Slots() const;
  std::vector<std::string> Parked() const;
  // It has ended, or the spawner has it no more.
  void Lost(const std::string& id);

  bool LayerInUse(wire::LayerId layer) const;
  // Members that pools with a name may keep; and what all that are there were promised.
  uint32_t Kept() const;
  const Held& stock() const { return stock_; }
  const PoolStats& stats() const { return stats_; }
  // How many there are that have made themselves.
  uint32_t automatic() const { return automatic_; }

 private:
  struct Pool {
    PoolRecord record;
    std::deque<std::unique_ptr<ParkedSandbox>> members;  // oldest first
    uint32_t allocated = 0;
    bool filling = false;
    int64_t not_before_us = 0;  // nothing is built for it
    std::string trouble;
    std::optional<int64_t> used_us;  // of one that made itself
  };
  using Pools = std::map<std::string, Pool>;
  // The one member that is on its way.
  struct Building {
    std::string pool;
    Sandbox sandbox;  // with its slot, once it has one
    bool lost = false;
  };

  Status CheckCapacity(const std::string& name, const PoolCapacity& capacity) const;
  static uint32_t MostOf(const PoolCapacity& capacity);
  Pools::iterator FindNamed(const std::string& name);
  Pools::const_iterator FindNamed(const std::string& name) const;
  bool HasRoomForAutomatic(uint32_t pools) const;
  Pools::iterator LeastRecent();
  void EndAutomatic(Pools::iterator pool);
  void TrimAutomatic();
  bool Wants(Pool& pool) const;
  int64_t DueUs(const Pool& pool) const;
  void MakeRoom();
  void Pump();
  void PumpLater(int64_t delay_us);
  void Build(Pool& pool);
  void GotSlot(uint64_t order, Result<SlotPool::Ready> slot);
  void Built(uint64_t order, uint32_t slot, Result<BuiltSandbox> built);
  void GiveUp(const Error& error);
  void EndTurn();
  void Dispose(std::unique_ptr<ParkedSandbox> member);
  void DisposeAll(Pool& pool);

  const Parts parts_;
  const uint32_t most_members_;
  const uint32_t most_automatic_;
  uint32_t automatic_ = 0;  // of pools_
  Pools pools_;
  std::optional<Building> building_;
  Held stock_;          // of parked ones and that on its way
  uint64_t order_ = 0;  // of the build under way: answers to others are stale
  int64_t quiet_from_us_ = 0;
  Loop::Id timer_ = 0;
  int64_t timer_due_us_ = 0;
  bool stopped_ = false;
  PoolStats stats_;
  const Guard guard_;
};

}  // namespace atl::sandbox
