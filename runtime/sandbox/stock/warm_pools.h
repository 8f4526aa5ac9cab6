// Pools: sandboxes of an image that are built ahead and parked until a create claims them. A member
// has everything that the image determines. Everything specific to one sandbox (argv, environment,
// tokens, network policy, labels) comes with the claim, so a member never holds one client's data
// for another. A claim with other limits changes the member's before it starts (launch.h). One
// create gets a member.
//
// The spawner knows a member as a normal sandbox, but the member has no record. A daemon that dies
// leaves its members as orphans; the next daemon destroys them and builds new ones. Members are
// built one at a time, when no create is at work and the client of the last create has had its
// first output. Members give up their share of the host as soon as a create needs it.
//
// A pool either has a name and a record, or is automatic: the daemon makes it because creates ask
// for its image, and removes it when they stop. Only the metrics show automatic pools.
//
// Thread rule: on the loop.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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
#include "runtime/tenants/caller.h"

namespace atl::sandbox {

// Reasons for which a create of a pool is built.
enum class ColdReason : uint8_t {
  kEmpty,         // no member was parked
  kImage,         // the members are of an earlier version of the image
  kVolumes,       // the build decides volumes …
  kReadOnlyRoot,  // … and whether the root can be written
  kOpenFiles,     // the members have another limit of open files, and it cannot be lifted
  kLimits,        // the member could not take the limits; the log says why
  kGpus,          // the build decides GPUs
  kTier,          // the members have another tier
};
inline constexpr int kColdReasons = 8;
// "empty", "image", "volumes", "read_only_root", "open_files", "limits", "gpus", "isolation".
std::string_view ColdReasonName(ColdReason reason);

// Counts creates of pools, by what they got.
struct PoolCreates {
  uint64_t claimed = 0;
  std::array<uint64_t, kColdReasons> cold{};
};

struct PoolStats {
  uint64_t built = 0;
  uint64_t disposed = 0;
  PoolCreates creates;
};

class WarmPools {
 public:
  // All parts outlive this object.
  struct Parts {
    Loop& loop;
    const Clock& clock;
    Admission& admission;
    SlotPool& slots;
    Builder& builder;
    PoolStore& store;
    const Room& room;
    const TermsTable& terms;
    const Check& check;
    Orphans& orphans;
  };
  struct View {
    PoolRecord record;
    uint32_t allocated = 0;  // live sandboxes that were claimed from the pool
    uint32_t available = 0;
    PoolCreates creates;  // since the daemon's start
    std::string trouble;  // why the pool is not being filled; empty: nothing prevents it
  };
  // `most_members`: limit for all pools together. `most_automatic`: limit of automatic pools.
  WarmPools(const Parts& parts, uint32_t most_members, uint32_t most_automatic)
      : parts_(parts), most_members_(most_members), most_automatic_(most_automatic) {}
  WarmPools(const WarmPools&) = delete;
  WarmPools& operator=(const WarmPools&) = delete;
  ~WarmPools() { parts_.loop.Cancel(timer_); }

  Status Load();
  // Sets the function to call when stock() has changed.
  void OnStock(std::function<void()> changed) { stock_changed_ = std::move(changed); }
  // Adds the named pools of the tenant.
  void CountOwned(const std::string& tenant, Owned* owned) const;

  // A name is one of the caller's tenant.
  //
  // Creates a pool of the caller; `record.key` is its name. kAlreadyExists. kInvalidArgument: the
  // bounds are invalid, or exceed `most_members`. QuotaError. Other errors: see Check::PoolMember.
  Status Create(const tenants::Caller& caller, PoolRecord record);
  // Changes the bounds. kNotFound. Other errors: see Create. A narrowed key sets no bound that is
  // beyond its own limits.
  Status Resize(const tenants::Caller& caller, const std::string& name,
                const PoolCapacity& capacity);
  // Removes the pool. kFailedPrecondition: sandboxes of it live.
  Status Remove(const tenants::Caller& caller, const std::string& name);
  std::optional<View> Find(const tenants::Caller& caller, const std::string& name) const;
  // Returns the pools that the caller sees.
  std::vector<View> List(const tenants::Caller& caller) const;
  // Returns a pool that may use the image of that owner; null if there is none.
  const PoolRecord* UserOf(const std::string& owner, const std::string& image) const;

  // Completes a create that names a pool: the pool's values fill what the request leaves out.
  // kInvalidArgument: the request names another image than the pool. Other errors: see CheckRoom.
  Result<Wanted> Fill(const tenants::Caller& caller, const Wanted& wanted) const;
  // kResourceExhausted: the pool has its maximum number of sandboxes.
  Status CheckRoom(const tenants::Caller& caller, const std::string& name) const;
  // Returns a member for a create and gives its id to `checked`: from the pool that the create
  // names, or from an automatic pool. Null: the sandbox has to be built. The named pool counts the
  // sandbox from now on in either case.
  std::unique_ptr<ParkedSandbox> Claim(Checked* checked, const Wanted& wanted);
  // Count sandboxes that were claimed from pools. OnTransition is a watcher of the machine and
  // calls both.
  void Hold(const Sandbox& sandbox);
  void Drop(const Sandbox& sandbox);
  void OnTransition(const Sandbox& sandbox, State before);

  // Call when a create is coming: pauses building for a while, and disposes of members if the
  // create needs their room.
  void GiveWay();
  // Call periodically: replaces outdated members.
  void Look();
  // Call for a new spawner, or if the spawner's sandboxes are unknown: forgets all members without
  // destroying them.
  void Reset();
  // Stops building.
  void Stop() { stopped_ = true; }

  // Returns true for a member that is parked or being built.
  bool Knows(const std::string& id) const;
  std::vector<uint32_t> Slots() const;
  std::vector<std::string> Parked() const;
  // The member has ended, or the spawner no longer has it.
  void Lost(const std::string& id);

  bool LayerInUse(wire::LayerId layer) const;
  // CountKept adds the members that named pools may keep. stock returns the resources reserved for
  // existing members.
  void CountKept(const std::string& tenant, Kept* kept) const;
  const Held& stock() const { return stock_; }
  const PoolStats& stats() const { return stats_; }
  // Returns the number of automatic pools.
  uint32_t automatic() const { return automatic_; }

 private:
  struct Pool {
    PoolRecord record;
    std::deque<std::unique_ptr<ParkedSandbox>> members;  // oldest first
    uint32_t allocated = 0;
    PoolCreates creates;
    bool filling = false;
    int64_t not_before_us = 0;  // builds nothing before this time
    std::string trouble;
    std::optional<int64_t> used_us;  // last use of an automatic pool
  };
  using Pools = std::map<std::string, Pool>;  // key: PoolKey
  static View ViewOf(const Pool& pool);
  // The member that is being built.
  struct Building {
    std::string pool;
    Sandbox sandbox;  // has its slot once it has got one
    bool lost = false;
  };

  // Takes a member that fits `wanted` from the pool of that key; the caller owns it. Null: no
  // member fits.
  std::unique_ptr<ParkedSandbox> Take(const std::string& key, const Sandbox& wanted);
  // Like Take, from the automatic pool of that image. Makes the pool if there is none. Members that
  // are built later have these limits, because the next create of an image is likely to have them.
  // `image_owner`: the tenant that owns the image, and so the only one to claim from the pool.
  std::unique_ptr<ParkedSandbox> TakeAutomatic(
      const std::string& image_owner, const Sandbox& wanted,
      const std::map<std::string, std::string>& resource_limits);
  // Returns why the pool has no member for `wanted`; none: it has one.
  static std::optional<ColdReason> WhyCold(const Pool& pool, const Sandbox& wanted);
  void CountCold(const std::string& key, ColdReason reason);
  Status CheckCapacity(const std::string& tenant, const std::string& key,
                       const PoolCapacity& capacity) const;
  // kPermissionDenied, QuotaError: the pool would be more than its tenant, or the caller's key, may
  // have at a time.
  Status CheckTerms(const tenants::Caller& caller, const PoolRecord& pool) const;
  static uint32_t MostOf(const PoolCapacity& capacity);
  Pools::iterator FindNamed(const std::string& tenant, const std::string& name);
  Pools::const_iterator FindNamed(const std::string& tenant, const std::string& name) const;
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
  uint32_t automatic_ = 0;  // number of automatic pools in pools_
  Pools pools_;
  std::optional<Building> building_;
  Held stock_;  // parked members and the member being built
  std::function<void()> stock_changed_ = [] {};
  uint64_t order_ = 0;  // number of the present build; answers to older builds are stale
  int64_t quiet_from_us_ = 0;
  Loop::Id timer_ = 0;
  int64_t timer_due_us_ = 0;
  bool stopped_ = false;
  PoolStats stats_;
  const Guard guard_;
};

}  // namespace atl::sandbox
