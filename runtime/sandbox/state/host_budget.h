// What the sandboxes of this host may be promised together, so that it never starts to thrash.
// Limits are ceilings, and most sandboxes stay far below theirs: the sum of all limits may exceed
// what the host has by a factor, and what is really free is looked at beside it. Reservations are
// promises: their sum stays within what the host has, and nothing else is counted against them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/sandbox/record/sandbox.h"

namespace atl::sandbox {

struct HostBudget {
  // 0 anywhere: not looked at.
  uint64_t memory_total = 0;   // bytes of the host: more than this no single sandbox can have
  uint64_t memory_budget = 0;  // bytes for the limits of all sandboxes, with their buckets
  uint64_t pids_budget = 0;
  uint64_t cpu_millis = 0;  // of the host, for reservations
  uint64_t sandboxes = 0;
  // What must be free for another one.
  uint64_t memory_reserve = 0;
  uint64_t pids_reserve = 0;
  struct Free {
    uint64_t memory_bytes = UINT64_MAX;  // can be had without swapping
    uint64_t pids = UINT64_MAX;
  };
  std::function<Free()> free;
};

// Of this host. `overcommit`: the budget over what the host has; 0 turns the sums off.
HostBudget BudgetOfHost(double overcommit);

struct Held {
  uint64_t sandboxes = 0;
  uint64_t memory_bytes = 0;
  uint64_t pids = 0;
  Reservation reserved;

  void Add(const Spec& spec);
  void Add(const Held& others);
  void Remove(const Spec& spec);
};

// Sandboxes that all pools and templates together could keep once `wish` were granted.
// kInvalidArgument: more than `most`.
Status CheckKept(const std::string& wish, uint64_t kept, uint32_t most);

// kInvalidArgument: it could never be had here. kResourceExhausted with ENOMEM: not now.
Status CheckBudget(const HostBudget& budget, const Held& held, const Spec& asked);

// What this host has been asked to hold, and whether there is room for more: sandboxes of clients,
// which are counted here, and stocks of sandboxes that are built ahead, which give way to them.
//
// Thread rule: on the loop.
class Room {
 public:
  // One stock, by three functions.
  struct Holder {
    std::function<Held()> held = [] { return Held(); };          // by what is there, or coming
    std::function<uint32_t()> kept = [] { return uint32_t(); };  // sandboxes that it may keep
    std::function<void()> give_way;                              // a create is on its way
  };
  explicit Room(HostBudget budget) : budget_(std::move(budget)) {}
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  // They give way in this order.
  void Add(Holder holder) { holders_.push_back(std::move(holder)); }

  // A sandbox holds what it was promised; each Hold is ended by a Drop. One that is in stock is its
  // stock's to count.
  void Hold(const Sandbox& sandbox);
  void Drop(const Sandbox& sandbox);
  void Clear() { held_ = {}; }

  // Whether a client may have another such sandbox. Stocks are not counted: they give way. As
  // CheckBudget.
  Status Check(const Spec& asked) const { return CheckBudget(budget_, held_, asked); }
  // Whether there is room for this one beside all others, stocks included; `another`: it is not
  // among them yet.
  Status CheckStock(const Spec& member, bool another) const;
  // Sandboxes that all stocks together may keep.
  uint64_t Kept() const;
  void GiveWay();

  const HostBudget& budget() const { return budget_; }
  const Held& held() const { return held_; }

 private:
  const HostBudget budget_;
  Held held_;  // by sandboxes of clients
  std::vector<Holder> holders_;
};

}  // namespace atl::sandbox
