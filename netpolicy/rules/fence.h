// Keeps the host's side of all sandboxes as it has to be: the main table and the barrier, the
// gateway's addresses, forwarding, and for each link that it is up, with its routes, neighbours and
// rate. What another program removes is restored at once and reported in the log, in a metric and
// in the health.
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
  // change of the table must go through it; otherwise it is taken for a foreign change.
  Fence(RulesetConfig ruleset, bool ipv6, int route, int nfnetlink)
      : ruleset_(std::move(ruleset)), ipv6_(ipv6), route_(route), nfnetlink_(nfnetlink) {}
  Fence(const Fence&) = delete;
  Fence& operator=(const Fence&) = delete;
  ~Fence();

  // Installs everything that belongs to no slot. Elements of slots that are already in the table
  // stay.
  Status Install();
  // Starts to watch. `on_restored` is called after the table was restored; flows that it does not
  // allow may have begun meanwhile.
  Status Start(Loop& loop, Health& health, const Enforcer& enforcer,
               std::function<void()> on_restored);
  // Ends the watch, and cancels repairs and reports that are waiting for their timer.
  void Stop();

  // Attached: the slot has a link, until Detached. Claimed: the link has this rate limit, 0 for
  // none.
  void Attached(uint32_t slot) { slots_[slot] = 0; }
  void Claimed(uint32_t slot, uint64_t bytes_per_second) { slots_[slot] = bytes_per_second; }
  void Detached(uint32_t slot);
  // Replaces the list of slots with links by `slots` (with their rate limits). All other links
  // disappeared with their spawner.
  void Recovered(std::map<uint32_t, uint64_t> slots);
  // Returns true if another program has deleted the slot's link. A link cannot be restored.
  bool IsLost(uint32_t slot) const { return lost_.contains(slot); }
  const std::map<uint32_t, uint64_t>& slots() const { return slots_; }

  // Number of repairs.
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
  void OnLinkMissing(uint32_t slot);
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

  std::map<uint32_t, uint64_t> slots_;  // attached slots, with their rate limits
  // Problems of repairs that failed and are retried. Empty: none.
  std::string table_trouble_, host_trouble_;
  // Links that are missing, with the time since when. Their sandbox may be ending, or another
  // program has deleted them.
  std::map<uint32_t, int64_t> missing_;
  std::set<uint32_t> lost_;  // links deleted by another program while their sandbox lives
  std::string repaired_;     // the latest repair, shown in the health for a while
  uint64_t repairs_ = 0;
  std::string changed_by_;
  int64_t restored_us_ = 0;
  Loop::Id restore_timer_ = 0, retry_timer_ = 0, lost_timer_ = 0, report_timer_ = 0;
};

}  // namespace atl::netpolicy
