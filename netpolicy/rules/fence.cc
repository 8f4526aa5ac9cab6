#include "netpolicy/rules/fence.h"

#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "netpolicy/address/addresses.h"
#include "netpolicy/link/forwarding.h"
#include "netpolicy/link/link.h"
#include "netpolicy/link/netlink.h"
#include "netpolicy/link/own_address.h"
#include "netpolicy/rules/barrier.h"
#include "runtime/base/log.h"

namespace atl::netpolicy {
namespace {

// Shortest time between two repairs, so that a program that flushes in a loop does not use up the
// daemon's time. The barrier holds meanwhile.
constexpr int64_t kRestoreIntervalUs = 50'000;
constexpr int64_t kRetryUs = 500'000;
// How long a link may be missing before it counts as deleted. The link of an ending sandbox
// disappears before the daemon hears of its end.
constexpr int64_t kLostAfterUs = 3'000'000;
// How long a repair shows in the health, so that occasional readers see it.
constexpr int64_t kShownUs = 10'000'000;

bool Exists(int ifindex) {
  std::array<char, IF_NAMESIZE> name;
  return ::if_indextoname(static_cast<unsigned>(ifindex), name.data()) != nullptr;
}

Result<uint32_t> PortId(int netlink) {
  sockaddr_nl address{};
  socklen_t size = sizeof address;
  if (::getsockname(netlink, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return FailSys("getsockname of the nfnetlink socket");
  }
  return address.nl_pid;
}

}  // namespace

Fence::~Fence() {
  Stop();
}

Status Fence::Install() {
  // The rules come before forwarding, so that sandboxes are never routed without rules. They also
  // come before the barrier, because rules of an earlier release do not set its bit.
  ATOLL_TRY(InstallTable());
  ATOLL_TRY(InstallBarrier());
  NetlinkBatch gateway;
  AddGatewayMessages(gateway, ruleset_.instance, ipv6_);
  ATOLL_TRY(Exchange(route_, gateway));
  ATOLL_TRY(EnableForwarding());
  ATOLL_ASSIGN(const uint32_t own, PortId(nfnetlink_));
  ATOLL_ASSIGN(watch_, FenceWatch::Open(ruleset_.instance, own));
  return {};
}

// Changes the table in place, so that sandboxes and their flows continue. This fails if an earlier
// release has left a set or chain of another type. Then the table is made anew, and nothing passes
// until the live sandboxes are recovered.
Status Fence::InstallTable() {
  NftTransaction in_place(TableName(ruleset_.instance));
  AddRuleset(in_place, ruleset_);
  const Status changed = in_place.Commit(nfnetlink_);
  if (changed) return {};
  NftTransaction anew(TableName(ruleset_.instance));
  AddRulesetAnew(anew, ruleset_);
  ATOLL_TRY(anew.Commit(nfnetlink_));
  LogLine(LogLevel::kInfo, "replacing the network rules of another release").Add(changed.error());
  return {};
}

Status Fence::InstallBarrier() {
  Status made;
  for (const std::string& name : BarrierNames(ruleset_.instance)) {
    NftTransaction barrier(name);
    AddBarrier(barrier, ruleset_.instance);
    made = barrier.Commit(nfnetlink_);
    // EPERM: the barrier of the former daemon. The spawner holds its socket until it has ours.
    if (made || made.error().error_number() != EPERM) break;
  }
  return made;
}

Status Fence::Start(Loop& loop, Health& health, const Enforcer& enforcer,
                    std::function<void()> on_restored) {
  loop_ = &loop;
  health_ = &health;
  enforcer_ = &enforcer;
  on_restored_ = std::move(on_restored);
  watch_->Start(loop, [this](const FenceChanges& changes) { OnChange(changes); });
  return {};
}

void Fence::Stop() {
  watch_.reset();
  if (!loop_) return;
  for (const Loop::Id timer : {restore_timer_, retry_timer_, lost_timer_, report_timer_}) {
    loop_->Cancel(timer);
  }
}

void Fence::Detached(uint32_t slot) {
  slots_.erase(slot);
  missing_.erase(slot);
  if (lost_.erase(slot) > 0) Report();
}

void Fence::Recovered(std::map<uint32_t, uint64_t> slots) {
  slots_ = std::move(slots);
  std::erase_if(missing_, [this](const auto& one) { return !slots_.contains(one.first); });
  if (std::erase_if(lost_, [this](uint32_t slot) { return !slots_.contains(slot); }) > 0) Report();
}

void Fence::OnChange(const FenceChanges& changes) {
  if (changes.table && restore_timer_ == 0) {
    changed_by_ = changes.by.empty() ? "somebody" : changes.by;
    const int64_t wait = restored_us_ + kRestoreIntervalUs - SystemClock().BootMicros();
    if (wait <= 0) {
      RestoreTable();
    } else {
      restore_timer_ = loop_->After(wait, [this] {
        restore_timer_ = 0;
        RestoreTable();
      });
    }
  }
  if (changes.host || changes.all_slots) RestoreHost();
  if (changes.all_slots) RestoreUnheard();
  for (const uint32_t slot : changes.gone) {
    if (slots_.contains(slot) && !Exists(HostIfindex(ruleset_.instance, slot))) OnLinkMissing(slot);
  }
  for (const uint32_t slot : changes.slots) {
    if (slots_.contains(slot)) RestoreSlot(slot);
  }
}

// Replaces the table completely, whatever another program has made of it.
Status Fence::PutTableBack() {
  auto transaction = std::make_unique<NftTransaction>(TableName(ruleset_.instance));
  AddRulesetAnew(*transaction, ruleset_);
  for (const auto& [slot, rate] : slots_) {
    if (transaction->full()) {
      ATOLL_TRY(transaction->Commit(nfnetlink_));
      transaction = std::make_unique<NftTransaction>(TableName(ruleset_.instance));
    }
    // All slots are in one transaction: nothing passes until it is committed.
    enforcer_->AddSlotAnew(*transaction, slot);
    AddSlotElements(*transaction, ruleset_.instance, slot);
  }
  return transaction->Commit(nfnetlink_);
}

void Fence::RestoreTable() {
  const int64_t begun = SystemClock().BootMicros();
  Status restored = PutTableBack();
  restored_us_ = SystemClock().BootMicros();
  if (!restored) {
    LogLine(LogLevel::kError, "cannot restore the network rules; sandboxes have no network")
        .Add("changed_by", changed_by_)
        .Add(restored.error());
    table_trouble_ = "the nftables table " + TableName(ruleset_.instance) +
                     " was changed and cannot be restored: " + restored.error().message() +
                     "; sandboxes have no network until it is restored";
    TryAgain();
    return Report();
  }
  table_trouble_.clear();
  LogLine(LogLevel::kWarning, "another program changed the network rules; they were restored")
      .Add("changed_by", changed_by_)
      .Add("micros", restored_us_ - begun);
  Repaired("the nftables table " + TableName(ruleset_.instance) +
           " was changed by another program and has been restored; sandboxes had no network "
           "meanwhile. Exclude the table from firewall reloads");
  on_restored_();
}

void Fence::RestoreHost() {
  const auto has = [](const auto& address) { return IsOwnAddress(IpAddress::FromBytes(address)); };
  const bool gateway =
      has(GatewayIpv4(ruleset_.instance)) && (!ipv6_ || has(GatewayIpv6(ruleset_.instance)));
  const Forwarding forwarding = ReadForwarding();
  if (gateway && forwarding.ipv4 && (forwarding.ipv6 || !ipv6_)) {
    if (!host_trouble_.empty()) {
      host_trouble_.clear();
      Report();
    }
    return;
  }
  const std::string what =
      gateway ? "forwarding was switched off" : "the gateway's addresses were removed from lo";
  NetlinkBatch batch;
  AddGatewayMessages(batch, ruleset_.instance, ipv6_);
  Status restored = Exchange(route_, batch);
  if (restored) restored = EnableForwarding();
  if (!restored) {
    LogLine(LogLevel::kError, "cannot restore the host's side of the network")
        .Add("what", what)
        .Add(restored.error());
    host_trouble_ = what + " and this cannot be undone: " + restored.error().message();
    TryAgain();
    return Report();
  }
  host_trouble_.clear();
  LogLine(LogLevel::kWarning,
          "another program changed the host's side of the network; it was restored")
      .Add("what", what);
  Repaired(what + "; this was undone");
}

Status Fence::PutSlotBack(uint32_t slot, uint64_t bytes_per_second) {
  NetlinkBatch batch;
  AddHostMessages(batch, {ruleset_.instance, slot, 0, ipv6_});
  ATOLL_TRY(Exchange(route_, batch));
  if (bytes_per_second == 0) return {};
  return LimitRate(route_, HostIfindex(ruleset_.instance, slot), bytes_per_second);
}

void Fence::RestoreSlot(uint32_t slot) {
  const Status restored = PutSlotBack(slot, slots_.at(slot));
  const std::string name = LinkName(ruleset_.instance, slot);
  if (restored) {
    LogLine(LogLevel::kWarning, "another program changed a sandbox's link; it was restored")
        .Add("link", name);
    return Repaired("links of sandboxes were changed by another program and have been restored");
  }
  if (restored.error().error_number() != ENODEV) {
    LogLine(LogLevel::kError, "cannot restore a sandbox's link")
        .Add("link", name)
        .Add(restored.error());
  }
  OnLinkMissing(slot);
}

// Restores all slots after events were lost: when hundreds of sandboxes end while the daemon is
// busy, the events do not fit into the socket's buffer. It is unknown which links were changed, so
// nothing is reported as a repair.
void Fence::RestoreUnheard() {
  LogLine(LogLevel::kInfo, "events about links were lost; all links are checked and restored");
  for (const auto& [slot, rate] : slots_) {
    if (!PutSlotBack(slot, rate)) OnLinkMissing(slot);
  }
}

void Fence::OnLinkMissing(uint32_t slot) {
  missing_.emplace(slot, SystemClock().BootMicros());
  if (lost_timer_ == 0) ReportLostLater(kLostAfterUs);
}

void Fence::ReportLostLater(int64_t delay_us) {
  lost_timer_ = loop_->After(delay_us, [this] {
    lost_timer_ = 0;
    ReportLost();
  });
}

void Fence::ReportLost() {
  const int64_t now_us = SystemClock().BootMicros();
  int64_t next_us = 0;
  for (auto one = missing_.begin(); one != missing_.end();) {
    const auto [slot, since_us] = *one;
    if (const int64_t left_us = since_us + kLostAfterUs - now_us; left_us > 0) {
      next_us = next_us == 0 ? left_us : std::min(next_us, left_us);
      ++one;
      continue;
    }
    one = missing_.erase(one);
    if (PutSlotBack(slot, slots_.at(slot))) continue;
    lost_.insert(slot);
    LogLine(LogLevel::kError,
            "another program deleted a sandbox's link; the sandbox has no network")
        .Add("link", LinkName(ruleset_.instance, slot));
  }
  if (next_us != 0) ReportLostLater(next_us);
  Report();
}

void Fence::TryAgain() {
  if (retry_timer_ != 0) return;
  retry_timer_ = loop_->After(kRetryUs, [this] {
    retry_timer_ = 0;
    if (!table_trouble_.empty()) RestoreTable();
    if (!host_trouble_.empty()) RestoreHost();
  });
}

void Fence::Repaired(std::string what) {
  ++repairs_;
  repaired_ = std::move(what);
  loop_->Cancel(report_timer_);
  report_timer_ = loop_->After(kShownUs, [this] {
    report_timer_ = 0;
    repaired_.clear();
    Report();
  });
  Report();
}

void Fence::Report() {
  std::string trouble;
  const auto add = [&](const std::string& one) {
    if (one.empty()) return;
    if (!trouble.empty()) trouble += "; ";
    trouble += one;
  };
  add(table_trouble_);
  add(host_trouble_);
  if (!lost_.empty()) {
    add("the links of " + std::to_string(lost_.size()) +
        " sandboxes were deleted by another program: these sandboxes have no network; delete them "
        "(the log names the links)");
  }
  add(repaired_);
  health_->Set("network", trouble);
}

}  // namespace atl::netpolicy
