// Limits what the sandboxes of this host may be promised together, so that the host never thrashes.
// Limits are ceilings, and most sandboxes stay far below theirs. So the sum of all limits may
// exceed the host's resources by a factor, and the check also looks at what is really free.
// Reservations are promises: their sum stays within the host's resources, and only reservations
// count against them.
//
// The sandboxes of a tenant also count against its quota (quotas.h). A check and the Hold that
// follows it happen without a return to the loop, so no other request comes between them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/fair_places.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/state/quotas.h"
#include "runtime/sandbox/state/terms.h"

namespace atl::sandbox {

struct HostBudget {
  // 0 in any field: not checked.
  uint64_t memory_total = 0;   // bytes of the host; the maximum for a single sandbox
  uint64_t memory_budget = 0;  // bytes for the limits of all sandboxes and buckets
  uint64_t pids_budget = 0;
  uint64_t cpu_millis = 0;  // CPU of the host, for reservations
  uint64_t sandboxes = 0;
  // Resources that must be free before another sandbox is admitted.
  uint64_t memory_reserve = 0;
  uint64_t pids_reserve = 0;
  struct Free {
    uint64_t memory_bytes = UINT64_MAX;  // available without swapping
    uint64_t pids = UINT64_MAX;
  };
  // Fails if the kernel does not tell; nothing is admitted then.
  std::function<Result<Free>()> free;
};

// Returns the budget of this host. `overcommit`: the factor over the host's resources; 0 turns the
// sums off. Fails if the kernel does not tell what the host has.
Result<HostBudget> BudgetOfHost(double overcommit);

// Takes `count` such sandboxes out of the budget, for machines that are booted ahead.
void KeepFor(const Spec& member, uint32_t count, HostBudget* budget);

struct Held {
  uint64_t sandboxes = 0;
  uint64_t memory_bytes = 0;
  uint64_t pids = 0;
  Reservation reserved;

  void Add(const Spec& spec);
  void Add(const Held& others);
  void Remove(const Spec& spec);
};

// How many sandboxes pools and templates may keep.
struct Kept {
  uint64_t all = 0;
  uint64_t own = 0;  // those of one tenant
};
// Checks whether the pools and templates of the tenant may keep `more` sandboxes. kInvalidArgument:
// all together could keep more than `most`, or the tenant more than it has to leave to others
// (fair_places.h). A tenant is not told what those of others add up to.
Status CheckKept(const std::string& tenant, const std::string& wish, const Kept& kept,
                 uint64_t more, uint32_t most);

// kInvalidArgument: this host can never satisfy the request. kResourceExhausted with ENOMEM: it
// cannot now.
Status CheckBudget(const HostBudget& budget, const Held& held, const Spec& asked);

// Tracks the promises of this host and decides whether another sandbox fits. Counts the sandboxes
// of clients itself, for the host and for each tenant. Stocks of sandboxes that were built ahead
// count their own members and give way to clients. Members of pools belong to no tenant before the
// claim. Members of templates count for their tenant, because they run its program.
//
// Thread rule: on the loop.
class Room {
 public:
  // One stock, by three functions.
  struct Holder {
    // Resources of its present and coming members.
    std::function<Held()> held = [] { return Held(); };
    // Adds the sandboxes that it may keep.
    std::function<void(const std::string& tenant, Kept* kept)> kept = [](const auto&, Kept*) {};
    std::function<void()> give_way;  // called when a create is coming
  };
  explicit Room(HostBudget budget) : budget_(std::move(budget)) {}
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  // Adds a stock. Stocks give way in the order of their addition.
  void Add(Holder holder) { holders_.push_back(std::move(holder)); }
  // Adds a part whose objects count against quotas, beside sandboxes. It adds to `owned` what the
  // tenant has of them.
  using CountOwned = std::function<void(const std::string& tenant, Owned* owned)>;
  void Add(CountOwned count) { counts_.push_back(std::move(count)); }

  // Counts a client's sandbox as its state demands. Call once for each; OnTransition does the rest,
  // down to the end. A stocked sandbox counts for its tenant only: its stock counts it for the
  // host.
  void Hold(const Sandbox& sandbox);
  // Undoes Hold, for a sandbox that is about to count otherwise.
  void Drop(const Sandbox& sandbox);
  // A watcher of the machine.
  void OnTransition(const Sandbox& sandbox, State before);
  void Clear();

  // Checks whether a client may have `count` more such sandboxes. Of their devices only the number
  // matters. Ignores stocks, because they give way. QuotaError: their tenant may not. Other errors:
  // see CheckBudget.
  Status Check(const Sandbox& asked, const SharedTerms& terms, size_t count = 1) const;
  // Like Check, for a sandbox that its tenant has already.
  Status CheckHost(const Spec& asked) const { return CheckBudget(budget_, held_, asked); }
  // Returns what the tenant has.
  Owned OwnedBy(const std::string& tenant) const;
  // Checks whether there is room for `member` beside all others, stocks included. `another`: the
  // stocks do not count it yet.
  Status CheckStock(const Spec& member, bool another) const;
  // Returns the number of sandboxes that all stocks together may keep, and the tenant's part of it.
  Kept KeptFor(const std::string& tenant) const;
  void GiveWay();

  const HostBudget& budget() const { return budget_; }
  const Held& held() const { return held_; }

 private:
  void Count(const Sandbox& sandbox, State before, State after);

  const HostBudget budget_;
  Held held_;                             // sandboxes of clients
  std::map<std::string, Owned> tenants_;  // sandboxes and members of tenants; no entry: none
  std::vector<Holder> holders_;
  std::vector<CountOwned> counts_;
};

}  // namespace atl::sandbox
