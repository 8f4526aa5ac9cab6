// What the host has for its sandboxes, kept as it has to be: the table and the barrier behind it,
// the gateway's addresses, forwarding, and of each link that it is up, with its routes, its
// neighbours and its rate. Whoever takes something of it away is told on, in the log, in a metric
// and in the health, and it is put back, at once.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "netpolicy/rules/enforcer.h"
#include "netpolicy/rules/fence_watch.h"
#include "netpolicy/rules/ruleset.h"
#include "runtime/base/clock.h"
#include "runtime/base/health.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"

namespace atl::netpolicy {

class Fence {
 public:
  // `route` (rtnetlink) and `nfnetlink` are borrowed. The barrier belongs to `nfnetlink`, and every
  // change of the table has to go through it, or it is taken for somebody else's.
  Fence(RulesetConfig ruleset, bool ipv6, int route, int nfnetlink)
      : ruleset_(std::move(ruleset)), ipv6_(ipv6), route_(route), nfnetlink_(nfnetlink) {}
  Fence(const Fence&) = delete;
  Fence& operator=(const Fence&) = delete;
  ~Fence();

  // What belongs to no slot; elements of slots that stand in the table stay.
  Status Install();
  // `on_restored`: the table was put back, and flows may have begun that it does not let through.
  Status Start(Loop& loop, Health& health, const Enforcer& enforcer,
               std::function<void()> on_restored);
  // Watches no more.
  void Stop();

  // The slot has a link; with a rate, once it is claimed. Until Detached.
  void Attached(uint32_t slot) { slots_[slot] = 0; }
  void Claimed(uint32_t slot, uint64_t bytes_per_second) { slots_[slot] = bytes_per_second; }
  void Detached(uint32_t slot);
  // Only these have links, with their rates; what else was attached went with its spawner.
  void Recovered(std::map<uint32_t, uint64_t> slots);
  // Somebody has deleted the slot's link, which cannot be put back.
  bool IsLost(uint32_t slot) const { return lost_.contains(slot); }
  const std::map<uint32_t, uint64_t>& slots() const { return slots_; }

  // How often something was put back.
  uint64_t repairs() const { return repairs_; }

 private:
  void OnChange(const FenceChanges& changes);
  void RestoreTable();
  Status InstallTable();
  Status InstallBarrier();
  Status PutTableBack();
  void RestoreHost();
  void RestoreSlot(uint32_t slot);
  void RestoreUnheard();
  void Missing(uint32_t slot);
  Status PutSlotBack(uint32_t slot, uint64_t bytes_per_second);
  void ReportLostLater(int64_t delay_us);
  void ReportLost();
  void Repaired(std::string what);
  void Report();
  void TryAgain();

  const RulesetConfig ruleset_;
  const bool ipv6_;
  const int route_;
  const int nfnetlink_;
  const Enforcer* enforcer_ = nullptr;
  std::unique_ptr<FenceWatch> watch_;
  Loop* loop_ = nullptr;
  Health* health_ = nullptr;
  std::function<void()> on_restored_;

  std::map<uint32_t, uint64_t> slots_;  // attached, with their rates
  // What could not be put back, and is tried again.
  std::string table_trouble_, host_trouble_;
  // Links that are not there since, of sandboxes that end or deleted.
  std::map<uint32_t, int64_t> missing_;
  std::set<uint32_t> lost_;  // deleted, as their sandboxes live on
  std::string repaired_;     // told for a while
  uint64_t repairs_ = 0;
  std::string changed_by_;
  int64_t restored_us_ = 0;
  Loop::Id restore_timer_ = 0, retry_timer_ = 0, lost_timer_ = 0, report_timer_ = 0;
};

}  // namespace atl::netpolicy
