#include "runtime/sandbox/live/idle_watch.h"

#include <algorithm>

namespace atl::sandbox {
namespace {

constexpr int64_t kSecondUs = 1'000'000;
constexpr int64_t kLooks = 4;  // samples within the time to idle
constexpr int64_t kLongestUs = 15 * kSecondUs;
// A sandbox that uses less than 1/kShare of one CPU is idle.
constexpr int64_t kShare = 100;

}  // namespace

IdleWatch::~IdleWatch() {
  for (const auto& [id, watched] : watched_) {
    loop_.Cancel(watched.timer);
    watched.uses->refused = nullptr;
  }
}

void IdleWatch::Watch(const std::string& id, uint32_t slot, int64_t after_seconds) {
  Watched& watched = watched_[id];
  loop_.Cancel(watched.timer);
  watched.slot = slot;
  watched.after_us = after_seconds * kSecondUs;
  watched.cpu_micros = cpu_micros_(slot).value_or(0);
  watched.looked_us = clock_.BootMicros();
  Uses& uses = *watched.uses;
  uses.unused = uses.open > 0 && uses.answered == 0;
  uses.last_us = uses.unused ? watched.looked_us - watched.after_us : watched.looked_us;
  watched.timer =
      loop_.After(std::min(watched.after_us / kLooks, kLongestUs), [this, id] { Look(id); });
}

void IdleWatch::Rest(const std::string& id) {
  const auto found = watched_.find(id);
  if (found == watched_.end()) return;
  loop_.Cancel(std::exchange(found->second.timer, 0));
}

void IdleWatch::Forget(const std::string& id) {
  Rest(id);
  const auto found = watched_.find(id);
  if (found == watched_.end()) return;
  found->second.uses->refused = nullptr;
  watched_.erase(found);
}

void IdleWatch::Look(const std::string& id) {
  Watched& watched = watched_.at(id);
  watched.timer = 0;
  const int64_t now_us = clock_.BootMicros();
  const auto cpu = cpu_micros_(watched.slot);
  const auto most = static_cast<uint64_t>((now_us - watched.looked_us) / kShare);
  // A sandbox whose CPU time is unknown does not count as idle.
  const bool computes = !cpu || *cpu > watched.cpu_micros + most;
  if (cpu) watched.cpu_micros = *cpu;
  watched.looked_us = now_us;
  const Uses& uses = *watched.uses;
  if (uses.answered > 0 || (computes && !uses.unused)) watched.uses->last_us = now_us;
  const int64_t left_us = uses.last_us + watched.after_us - now_us;
  if (left_us <= 0 && uses.open == 0) return idle_(id);
  const int64_t next_us = std::min(watched.after_us / kLooks, kLongestUs);
  watched.timer =
      loop_.After(left_us > 0 ? std::min(left_us, next_us) : next_us, [this, id] { Look(id); });
}

void IdleWatch::OnRefused(const std::string& id) {
  Watched& watched = watched_.at(id);
  const bool over = watched.uses->last_us + watched.after_us <= clock_.BootMicros();
  if (watched.timer == 0 || !over) return;
  loop_.Cancel(watched.timer);
  // Deferred, because the code that ends a request does not expect its sandbox to be paused
  // meanwhile.
  watched.timer = loop_.After(0, [this, id] { Look(id); });
}

std::shared_ptr<IdleWatch::Request> IdleWatch::Open(const std::string& id) {
  const std::shared_ptr<Uses>& uses = watched_[id].uses;
  if (!uses->refused) uses->refused = [this, id] { OnRefused(id); };
  return std::make_shared<Request>(uses, clock_);
}

IdleWatch::Request::Request(std::shared_ptr<Uses> uses, const Clock& clock)
    : uses_(std::move(uses)), clock_(clock) {
  ++uses_->open;
}

IdleWatch::Request::~Request() {
  --uses_->open;
  if (counted_) {
    --uses_->answered;
    uses_->last_us = clock_.BootMicros();
  } else if (uses_->open == 0 && uses_->refused) {
    uses_->refused();
  }
}

void IdleWatch::Request::Count() {
  if (std::exchange(counted_, true)) return;
  ++uses_->answered;
  uses_->unused = false;
  uses_->last_us = clock_.BootMicros();
}

}  // namespace atl::sandbox
