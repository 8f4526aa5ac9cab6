// What the sandboxes of this host may be promised together, so that it never starts to thrash.
// Limits are ceilings, and most sandboxes stay far below theirs: the sum of all limits may exceed
// what the host has by a factor, and what is really free is looked at beside it. Reservations are
// promises: their sum stays within what the host has, and nothing else is counted against them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

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

}  // namespace atl::sandbox
