#include "runtime/sandbox/stock/warm_pools.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "images/image_store.h"
#include "runtime/base/log.h"
#include "runtime/base/sandbox_id.h"

namespace atl::sandbox {
namespace {

// Quiet time after a create, whose client is about to send the first command, and perhaps the next
// create. A pool with less than half of its members waits less.
constexpr int64_t kQuietUs = 20'000;
constexpr int64_t kShortQuietUs = 2'000;
// Delay after the loss of a member, because the same cause may end the next one.
constexpr int64_t kLostUs = 1'000'000;

// Capacity of an automatic pool. Two members: one for the next create, and one for the create after
// it, while the first is built again.
constexpr PoolCapacity kAutomatic = {2, 2, 0, std::numeric_limits<uint32_t>::max()};
constexpr int64_t kForgottenUs = 600'000'000;
// An automatic pool that was used within this time is not replaced by another. Otherwise, with more
// images in turns than pools, each create would build and destroy members without using any.
constexpr int64_t kRecentUs = 60'000'000;

// Keys of automatic pools begin with a slash, which no name of a pool has. They sort before all
// names, so automatic pools give way first.
std::string AutomaticKey(const std::string& image_owner, const std::string& image) {
  return "/" + images::ImageKey(image_owner, image);
}

// The build decides volumes, GPUs and a read-only root, so no member has them.
std::optional<ColdReason> WhyBuilt(const Sandbox& wanted) {
  if (!wanted.spec.volumes.empty()) return ColdReason::kVolumes;
  if (wanted.spec.readonly_root) return ColdReason::kReadOnlyRoot;
  if (!wanted.devices.empty()) return ColdReason::kGpus;
  return std::nullopt;
}

Error NoSuchPool(const std::string& name) {
  return Error(Code::kNotFound, "pool '" + name.substr(0, 64) + "' does not exist");
}

}  // namespace

std::string_view ColdReasonName(ColdReason reason) {
  switch (reason) {
    case ColdReason::kEmpty:
      return "empty";
    case ColdReason::kImage:
      return "image";
    case ColdReason::kVolumes:
      return "volumes";
    case ColdReason::kReadOnlyRoot:
      return "read_only_root";
    case ColdReason::kOpenFiles:
      return "open_files";
    case ColdReason::kLimits:
      return "limits";
    case ColdReason::kGpus:
      return "gpus";
    case ColdReason::kTier:
      return "isolation";
  }
  return "";
}

Status WarmPools::Load() {
  ATOLL_ASSIGN(std::vector<PoolRecord> records, parts_.store.Load());
  for (PoolRecord& record : records) {
    Pool& pool = pools_[record.key];
    pool.record = std::move(record);
  }
  return {};
}

void WarmPools::CountOwned(const std::string& tenant, Owned* owned) const {
  for (const auto& [key, pool] : pools_) {
    if (!pool.used_us && pool.record.tenant == tenant) ++owned->pools;
  }
}

uint32_t WarmPools::MostOf(const PoolCapacity& capacity) {
  return std::max(capacity.buffer_max, capacity.pool_min);
}

Status WarmPools::CheckCapacity(const std::string& tenant, const std::string& key,
                                const PoolCapacity& capacity) const {
  if (capacity.buffer_min > capacity.buffer_max || capacity.pool_min > capacity.pool_max) {
    return Fail(Code::kInvalidArgument,
                "capacitySpec: bufferMin must not be more than bufferMax, nor poolMin than "
                "poolMax");
  }
  if (capacity.buffer_max == 0) {
    return Fail(Code::kInvalidArgument, "capacitySpec: bufferMax must be at least 1");
  }
  Kept others = parts_.room.KeptFor(tenant);
  if (const auto old = pools_.find(key); old != pools_.end()) {
    others.all -= MostOf(old->second.record.capacity);
    others.own -= MostOf(old->second.record.capacity);
  }
  return CheckKept(tenant,
                   "capacitySpec: with bufferMax " + std::to_string(capacity.buffer_max) +
                       " and poolMin " + std::to_string(capacity.pool_min),
                   others, MostOf(capacity), most_members_);
}

Status WarmPools::CheckTerms(const tenants::Caller& caller, const PoolRecord& pool) const {
  uint32_t members = MostOf(pool.capacity);
  if (caller.narrowing) members = std::max(members, pool.capacity.pool_max);
  return parts_.check.Ahead(caller, pool.image, pool.resource_limits, members);
}

void WarmPools::CountKept(const std::string& tenant, Kept* kept) const {
  for (const auto& [name, pool] : pools_) {
    if (pool.used_us) continue;
    kept->all += MostOf(pool.record.capacity);
    if (pool.record.tenant == tenant) kept->own += MostOf(pool.record.capacity);
  }
}

WarmPools::Pools::iterator WarmPools::FindNamed(const std::string& tenant,
                                                const std::string& name) {
  const auto found = pools_.find(PoolKey(tenant, name));
  if (found == pools_.end() || found->second.used_us) return pools_.end();
  // A client's text may be the key of another tenant's pool.
  return found->second.record.tenant == tenant ? found : pools_.end();
}

WarmPools::Pools::const_iterator WarmPools::FindNamed(const std::string& tenant,
                                                      const std::string& name) const {
  return const_cast<WarmPools*>(this)->FindNamed(tenant, name);
}

Status WarmPools::Create(const tenants::Caller& caller, PoolRecord record) {
  if (FindNamed(caller.tenant, record.key) != pools_.end()) {
    return Fail(Code::kAlreadyExists, "pool '" + record.key + "' exists");
  }
  if (const SharedTerms terms = parts_.terms.Of(caller.tenant, caller)) {
    ATOLL_TRY(CheckPoolQuota(terms, parts_.room.OwnedBy(caller.tenant)));
  }
  record.tenant = caller.tenant;
  record.key = PoolKey(caller.tenant, record.key);
  ATOLL_TRY(CheckCapacity(record.tenant, record.key, record.capacity));
  ATOLL_TRY(parts_.check.AllowedImage(caller, record.image, nullptr));
  ATOLL_TRY(CheckTerms(caller, record));
  ATOLL_ASSIGN(const Sandbox member, parts_.check.PoolMember(record));
  // Refuses only a pool that could never fit. A pool that does not fit now may fit later.
  if (const Status room = parts_.room.CheckStock(member.spec, true);
      !room && room.error().code() == Code::kInvalidArgument) {
    return room;
  }
  record.image = member.spec.image;
  record.created_at_ms = parts_.clock.UnixMillis();
  ATOLL_TRY(parts_.store.Write(record));
  Pool& pool = pools_[record.key];
  pool.record = std::move(record);
  TrimAutomatic();
  Pump();
  return {};
}

Status WarmPools::Resize(const tenants::Caller& caller, const std::string& name,
                         const PoolCapacity& capacity) {
  const auto found = FindNamed(caller.tenant, name);
  if (found == pools_.end()) return Fail(NoSuchPool(name));
  ATOLL_TRY(CheckCapacity(caller.tenant, found->first, capacity));
  PoolRecord record = found->second.record;
  record.capacity = capacity;
  ATOLL_TRY(CheckTerms(caller, record));
  ATOLL_TRY(parts_.store.Write(record));
  Pool& pool = found->second;
  pool.record = std::move(record);
  pool.filling = false;
  // Keeps the oldest members last: they have waited longest and are as good as the others.
  while (pool.members.size() > MostOf(capacity)) {
    auto member = std::move(pool.members.back());
    pool.members.pop_back();
    Dispose(std::move(member));
  }
  TrimAutomatic();
  Pump();
  return {};
}

Status WarmPools::Remove(const tenants::Caller& caller, const std::string& name) {
  const auto found = FindNamed(caller.tenant, name);
  if (found == pools_.end()) return Fail(NoSuchPool(name));
  if (found->second.allocated != 0) {
    return Fail(Code::kFailedPrecondition,
                "pool '" + name + "' is in use: " + std::to_string(found->second.allocated) +
                    " sandboxes of it live; delete them first");
  }
  ATOLL_TRY(parts_.store.Remove(found->first));
  DisposeAll(found->second);
  pools_.erase(found);
  return {};
}

WarmPools::View WarmPools::ViewOf(const Pool& pool) {
  return {pool.record, pool.allocated, static_cast<uint32_t>(pool.members.size()), pool.creates,
          pool.trouble};
}

std::optional<WarmPools::View> WarmPools::Find(const tenants::Caller& caller,
                                               const std::string& name) const {
  const auto found = FindNamed(caller.tenant, name);
  if (found == pools_.end()) return std::nullopt;
  return ViewOf(found->second);
}

std::vector<WarmPools::View> WarmPools::List(const tenants::Caller& caller) const {
  std::vector<View> all;
  for (const auto& [key, pool] : pools_) {
    if (!pool.used_us && caller.Sees(pool.record.tenant)) all.push_back(ViewOf(pool));
  }
  return all;
}

const PoolRecord* WarmPools::UserOf(const std::string& owner, const std::string& image) const {
  const auto found = std::find_if(pools_.begin(), pools_.end(), [&](const auto& entry) {
    const PoolRecord& pool = entry.second.record;
    const bool may_use = owner.empty() || owner == pool.tenant;
    return may_use && pool.image == image && !entry.second.used_us;
  });
  return found == pools_.end() ? nullptr : &found->second.record;
}

Status WarmPools::CheckRoom(const tenants::Caller& caller, const std::string& name) const {
  const auto found = FindNamed(caller.tenant, name);
  if (found == pools_.end()) return Fail(NoSuchPool(name));
  const Pool& pool = found->second;
  if (pool.allocated < pool.record.capacity.pool_max) return {};
  return Fail(Code::kResourceExhausted,
              "pool '" + name + "' has " + std::to_string(pool.allocated) +
                  " sandboxes, as many as its poolMax allows; delete one");
}

Result<Wanted> WarmPools::Fill(const tenants::Caller& caller, const Wanted& wanted) const {
  const std::string& name = wanted.spec.extensions.at(kPoolRef);
  ATOLL_TRY(CheckRoom(caller, name));
  const PoolRecord& pool = FindNamed(caller.tenant, name)->second.record;
  Wanted filled = wanted;
  if (!wanted.spec.image.empty()) {
    ATOLL_ASSIGN(const std::string image, images::NormaliseImageName(wanted.spec.image));
    if (image != pool.image) {
      return Fail(Code::kInvalidArgument, "pool '" + name + "' is of image " + pool.image +
                                              ", and not of " + image +
                                              "; leave out image, or poolRef");
    }
  }
  filled.spec.image = pool.image;
  if (filled.resource_limits.empty()) filled.resource_limits = pool.resource_limits;
  return filled;
}

std::unique_ptr<ParkedSandbox> WarmPools::Claim(Checked* checked, const Wanted& wanted) {
  Sandbox& s = checked->sandbox;
  Hold(s);
  // An image that is still being imported has no members.
  if (!checked->awaited_image.empty()) return nullptr;
  const auto ref = s.spec.extensions.find(kPoolRef);
  std::unique_ptr<ParkedSandbox> parked;
  if (ref != s.spec.extensions.end()) {
    parked = Take(PoolKey(s.tenant, ref->second), s);
  } else if (s.spec.snapshot_id.empty()) {
    parked = TakeAutomatic(checked->image_owner, s, wanted.resource_limits);
  }
  // The member's cgroup, socket and host name already have that id.
  if (parked) s.id = s.spec.network.sandbox = parked->sandbox.id;
  return parked;
}

std::unique_ptr<ParkedSandbox> WarmPools::Take(const std::string& key, const Sandbox& wanted) {
  const auto found = pools_.find(key);
  if (found == pools_.end()) return nullptr;
  auto& members = found->second.members;
  // These members have ended, and the spawner has not reported it yet, or is gone.
  while (!members.empty() && !members.front()->control->PeerIsThere()) {
    auto ended = std::move(members.front());
    members.pop_front();
    Dispose(std::move(ended));
  }
  if (const auto why = WhyCold(found->second, wanted)) {
    CountCold(key, *why);
    return nullptr;
  }
  auto member = std::move(members.front());
  members.pop_front();
  stock_.Remove(member->sandbox.spec);
  stock_changed_();
  member->settled = guard_([this, key](bool taken) {
    if (!taken) return CountCold(key, ColdReason::kLimits);
    ++stats_.creates.claimed;
    if (const auto pool = pools_.find(key); pool != pools_.end()) ++pool->second.creates.claimed;
  });
  return member;
}

std::optional<ColdReason> WarmPools::WhyCold(const Pool& pool, const Sandbox& wanted) {
  if (const auto why = WhyBuilt(wanted)) return why;
  if (pool.members.empty()) return ColdReason::kEmpty;
  const Sandbox& member = pool.members.front()->sandbox;
  if (!HasImageOf(member, wanted)) return ColdReason::kImage;
  if (member.spec.isolation != wanted.spec.isolation) return ColdReason::kTier;
  // The kernel lets only privilege raise a limit of open files that was lowered, and the spawner
  // may lack it.
  const uint64_t open_files = member.spec.limits.nofile;
  if (open_files != 0 && open_files != wanted.spec.limits.nofile) return ColdReason::kOpenFiles;
  return std::nullopt;
}

void WarmPools::CountCold(const std::string& key, ColdReason reason) {
  const auto index = static_cast<size_t>(reason);
  ++stats_.creates.cold[index];
  if (const auto pool = pools_.find(key); pool != pools_.end()) ++pool->second.creates.cold[index];
}

std::unique_ptr<ParkedSandbox> WarmPools::TakeAutomatic(
    const std::string& image_owner, const Sandbox& wanted,
    const std::map<std::string, std::string>& resource_limits) {
  if (most_automatic_ == 0 || WhyBuilt(wanted)) return nullptr;
  const std::string key = AutomaticKey(image_owner, wanted.spec.image);
  const int64_t now_us = parts_.clock.BootMicros();
  const auto found = pools_.find(key);
  if (found != pools_.end()) {
    found->second.used_us = now_us;
    found->second.record.resource_limits = resource_limits;
    return Take(key, wanted);
  }
  if (automatic_ == most_automatic_) {
    const auto oldest = LeastRecent();
    if (*oldest->second.used_us > now_us - kRecentUs) return nullptr;
    EndAutomatic(oldest);
  }
  if (!HasRoomForAutomatic(automatic_ + 1)) return nullptr;
  Pool& pool = pools_[key];
  pool.record = {.key = key,
                 .image = wanted.spec.image,
                 .resource_limits = resource_limits,
                 .capacity = kAutomatic,
                 .created_at_ms = parts_.clock.UnixMillis(),
                 .tenant = image_owner};
  pool.used_us = now_us;
  ++automatic_;
  return nullptr;
}

// Named pools come first within the limit of all members.
bool WarmPools::HasRoomForAutomatic(uint32_t pools) const {
  return parts_.room.KeptFor("").all + uint64_t{pools} * kAutomatic.buffer_max <= most_members_;
}

WarmPools::Pools::iterator WarmPools::LeastRecent() {
  auto oldest = pools_.end();
  for (auto pool = pools_.begin(); pool != pools_.end(); ++pool) {
    if (!pool->second.used_us) continue;
    if (oldest == pools_.end() || *pool->second.used_us < *oldest->second.used_us) oldest = pool;
  }
  return oldest;
}

void WarmPools::EndAutomatic(Pools::iterator pool) {
  DisposeAll(pool->second);
  pools_.erase(pool);
  --automatic_;
}

void WarmPools::TrimAutomatic() {
  const int64_t forgotten_us = parts_.clock.BootMicros() - kForgottenUs;
  while (automatic_ != 0) {
    const auto oldest = LeastRecent();
    const bool is_recent = *oldest->second.used_us > forgotten_us;
    if (is_recent && HasRoomForAutomatic(automatic_)) return;
    EndAutomatic(oldest);
  }
}

void WarmPools::Hold(const Sandbox& sandbox) {
  const auto ref = sandbox.spec.extensions.find(kPoolRef);
  if (ref == sandbox.spec.extensions.end()) return;
  const auto found = FindNamed(sandbox.tenant, ref->second);
  if (found != pools_.end()) ++found->second.allocated;
}

void WarmPools::Drop(const Sandbox& sandbox) {
  const auto ref = sandbox.spec.extensions.find(kPoolRef);
  if (ref == sandbox.spec.extensions.end()) return;
  // A new pool of the same name must not count it. A pool with sandboxes of its own stays, so it is
  // the pool that counted this one.
  const auto found = FindNamed(sandbox.tenant, ref->second);
  if (found != pools_.end() && found->second.allocated != 0) --found->second.allocated;
}

void WarmPools::OnTransition(const Sandbox& sandbox, State before) {
  if (CountsForOrigin(before) == CountsForOrigin(sandbox.state)) return;
  CountsForOrigin(before) ? Drop(sandbox) : Hold(sandbox);
}

void WarmPools::GiveWay() {
  if (pools_.empty()) return;
  quiet_from_us_ = parts_.clock.BootMicros();
  MakeRoom();
  PumpLater(kShortQuietUs);
}

void WarmPools::MakeRoom() {
  for (auto& [name, pool] : pools_) {
    while (!pool.members.empty()) {
      const Spec& spec = pool.members.back()->sandbox.spec;
      if (parts_.room.CheckStock(spec, false)) break;
      auto member = std::move(pool.members.back());
      pool.members.pop_back();
      Dispose(std::move(member));
    }
  }
}

void WarmPools::Look() {
  TrimAutomatic();
  for (auto& [name, pool] : pools_) {
    if (pool.members.empty()) continue;
    const auto now = parts_.check.PoolMember(pool.record);
    const Sandbox& member = pool.members.front()->sandbox;
    const bool is_current =
        now && (pool.used_us ? HasImageOf(member, *now) : IsBuiltLike(member, *now));
    if (!is_current) DisposeAll(pool);
  }
  Pump();
}

void WarmPools::Reset() {
  for (auto& [name, pool] : pools_) pool.members.clear();
  stock_ = {};
  stock_changed_();
  if (building_) {
    building_.reset();
    ++order_;
  }
  if (!pools_.empty()) PumpLater(kQuietUs);
}

bool WarmPools::Knows(const std::string& id) const {
  if (building_ && building_->sandbox.id == id) return true;
  return std::any_of(pools_.begin(), pools_.end(), [&id](const auto& entry) {
    const auto& members = entry.second.members;
    return std::any_of(members.begin(), members.end(),
                       [&id](const auto& member) { return member->sandbox.id == id; });
  });
}

std::vector<uint32_t> WarmPools::Slots() const {
  std::vector<uint32_t> slots;
  if (building_ && building_->sandbox.slot != 0) slots.push_back(building_->sandbox.slot);
  for (const auto& [name, pool] : pools_) {
    for (const auto& member : pool.members) slots.push_back(member->sandbox.slot);
  }
  return slots;
}

std::vector<std::string> WarmPools::Parked() const {
  std::vector<std::string> ids;
  for (const auto& [name, pool] : pools_) {
    for (const auto& member : pool.members) ids.push_back(member->sandbox.id);
  }
  return ids;
}

void WarmPools::Lost(const std::string& id) {
  if (building_ && building_->sandbox.id == id) {
    building_->lost = true;
    return;
  }
  for (auto& [name, pool] : pools_) {
    const auto found = std::find_if(pool.members.begin(), pool.members.end(),
                                    [&id](const auto& member) { return member->sandbox.id == id; });
    if (found == pool.members.end()) continue;
    LogLine(LogLevel::kWarning, "a parked sandbox has ended, building another")
        .Add("pool", name)
        .Add("sandbox", id);
    auto member = std::move(*found);
    pool.members.erase(found);
    Dispose(std::move(member));
    pool.not_before_us = parts_.clock.BootMicros() + kLostUs;
    return PumpLater(kLostUs);
  }
}

bool WarmPools::LayerInUse(wire::LayerId layer) const {
  const auto has = [layer](const Sandbox& sandbox) {
    return std::find(sandbox.layers.begin(), sandbox.layers.end(), layer) != sandbox.layers.end();
  };
  if (building_ && has(building_->sandbox)) return true;
  return std::any_of(pools_.begin(), pools_.end(), [&has](const auto& entry) {
    const auto& members = entry.second.members;
    return std::any_of(members.begin(), members.end(),
                       [&has](const auto& member) { return has(member->sandbox); });
  });
}

bool WarmPools::Wants(Pool& pool) const {
  const PoolCapacity& capacity = pool.record.capacity;
  const size_t available = pool.members.size();
  const size_t total = available + pool.allocated;
  if (available < capacity.buffer_min || total < capacity.pool_min) pool.filling = true;
  if (available >= capacity.buffer_max && total >= capacity.pool_min) pool.filling = false;
  return pool.filling && total < capacity.pool_max;
}

// Returns the time at which the next member of the pool is to be built.
int64_t WarmPools::DueUs(const Pool& pool) const {
  const bool is_low = pool.members.size() * 2 < pool.record.capacity.buffer_min;
  return std::max(quiet_from_us_ + (is_low ? kShortQuietUs : kQuietUs), pool.not_before_us);
}

void WarmPools::Pump() {
  if (stopped_ || building_) return;
  Pool* next = nullptr;
  const auto order = [this](const Pool& pool) {
    return std::pair(DueUs(pool), pool.members.size());
  };
  for (auto& [name, pool] : pools_) {
    if (!Wants(pool)) continue;
    if (next == nullptr || order(pool) < order(*next)) next = &pool;
  }
  if (next == nullptr) return;
  const int64_t due = DueUs(*next);
  const int64_t now = parts_.clock.BootMicros();
  if (now < due) return PumpLater(due - now);
  if (!parts_.admission.idle()) return PumpLater(kShortQuietUs);
  Build(*next);
}

void WarmPools::PumpLater(int64_t delay_us) {
  const int64_t due_us = parts_.clock.BootMicros() + delay_us;
  if (timer_ != 0 && timer_due_us_ <= due_us) return;
  parts_.loop.Cancel(timer_);
  timer_due_us_ = due_us;
  timer_ = parts_.loop.After(delay_us, [this] {
    timer_ = 0;
    Pump();
  });
}

void WarmPools::Build(Pool& pool) {
  auto member = parts_.check.PoolMember(pool.record);
  const Status room =
      member ? parts_.check.CheckStock(pool.record.tenant, member->spec) : Fail(member.error());
  // The next Look tries again.
  if (!room) {
    pool.trouble = room.error().message();
    // A refusal lasts until a reload. Without a delay this pool would always be the next one, and
    // others would get no members.
    if (room.error().code() == Code::kPermissionDenied) {
      pool.not_before_us = parts_.clock.BootMicros() + kLostUs;
      PumpLater(kQuietUs);
    }
    return;
  }
  pool.trouble.clear();
  member->id = NewSandboxId();
  stock_.Add(member->spec);
  stock_changed_();
  building_ = {pool.record.key, std::move(*member)};
  const uint64_t order = ++order_;
  parts_.slots.SetBusy(true);
  // The admission is idle, so the turn comes at once. Until the claim the member is the host's.
  const Status entered = parts_.admission.Enter("", [this, order] {
    parts_.slots.Take(
        guard_([this, order](Result<SlotPool::Ready> slot) { GotSlot(order, std::move(slot)); }),
        TierOf(building_->sandbox.spec));
  });
  if (!entered) GiveUp(entered.error());
}

void WarmPools::GotSlot(uint64_t order, Result<SlotPool::Ready> slot) {
  if (order != order_ || !building_) {
    if (slot) parts_.slots.Release(slot->number);
    return EndTurn();
  }
  if (!slot) {
    GiveUp(slot.error());
    return EndTurn();
  }
  const uint32_t number = slot->number;
  building_->sandbox.slot = number;
  const Status asked =
      parts_.builder.Park(building_->sandbox, std::move(slot->control),
                          guard_([this, order, number](Result<BuiltSandbox> built) {
                            Built(order, number, std::move(built));
                          }));
  if (asked) return;
  parts_.slots.Release(number);
  GiveUp(asked.error());
  EndTurn();
}

void WarmPools::Built(uint64_t order, uint32_t slot, Result<BuiltSandbox> built) {
  // The answer is from a spawner that is gone; Reset has counted its slots and sandboxes anew.
  if (order != order_ || !building_) return EndTurn();
  // Except for a slot that was lost in stock, nothing of the prepared slot is left.
  if (built || built.error().code() == Code::kFailedPrecondition) parts_.slots.MarkUsed(slot);
  Building done = *std::exchange(building_, std::nullopt);
  const auto pool = pools_.find(done.pool);
  auto member = std::make_unique<ParkedSandbox>();
  member->sandbox = std::move(done.sandbox);
  if (built && !done.lost && pool != pools_.end() &&
      pool->second.record.image == member->sandbox.spec.image) {
    member->control = std::move(built->control);
    pool->second.members.push_back(std::move(member));
    ++stats_.built;
    // A create may have taken the room meanwhile.
    MakeRoom();
  } else {
    if (!built) {
      LogLine(LogLevel::kWarning, "cannot build a sandbox for a pool")
          .Add("pool", done.pool)
          .Add(built.error());
      if (pool != pools_.end()) pool->second.trouble = "it could not be built; see the log";
    }
    Dispose(std::move(member));
  }
  const bool went_well = built && !done.lost;
  // The next one has another slot. Other failures may be of the image, or of the host; the next
  // Look tries again.
  const bool slot_was_lost = !built && built.error().code() == Code::kFailedPrecondition;
  EndTurn();
  if (went_well || slot_was_lost) Pump();
}

// The build left nothing but its counts; the next Look tries again.
void WarmPools::GiveUp(const Error& error) {
  const Building failed = *std::exchange(building_, std::nullopt);
  stock_.Remove(failed.sandbox.spec);
  stock_changed_();
  LogLine(LogLevel::kWarning, "cannot build a sandbox for a pool")
      .Add("pool", failed.pool)
      .Add(error);
  if (const auto pool = pools_.find(failed.pool); pool != pools_.end()) {
    pool->second.trouble = "it could not be built; see the log";
  }
}

void WarmPools::EndTurn() {
  parts_.admission.Leave("");
  parts_.slots.SetBusy(!parts_.admission.idle());
}

void WarmPools::Dispose(std::unique_ptr<ParkedSandbox> member) {
  stock_.Remove(member->sandbox.spec);
  stock_changed_();
  ++stats_.disposed;
  parts_.orphans.Destroy(member->sandbox.id, member->sandbox.slot);
}

void WarmPools::DisposeAll(Pool& pool) {
  for (auto& member : std::exchange(pool.members, {})) Dispose(std::move(member));
}

}  // namespace atl::sandbox
