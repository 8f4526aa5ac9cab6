#include "runtime/sandbox/idle_watch.h"

#include <algorithm>

namespace atl::sandbox {
namespace {

constexpr int64_t kSecondUs = 1'000'000;
constexpr int64_t kLooks = 4;  // within its time
constexpr int64_t kLongestUs = 15 * kSecondUs;
// What takes less of a processor than one part in so many, waits.
constexpr int64_t kShare = 100;

}  // namespace

IdleWatch::~IdleWatch() {
  for (const auto& [id, watched] : watched_) loop_.Cancel(watched.timer);
}

void IdleWatch::Watch(const std::string& id, uint32_t slot, int64_t after_seconds) {
  Watched& watched = watched_[id];
  loop_.Cancel(watched.timer);
  watched.slot = slot;
  watched.after_us = after_seconds * kSecondUs;
  watched.cpu_micros = cpu_micros_(slot).value_or(0);
  watched.looked_us = watched.uses->last_us = clock_.BootMicros();
  watched.timer =
      loop_.After(std::min(watched.after_us / kLooks, kLongestUs), [this, id] { Look(id); });
}

void IdleWatch::Rest(const std::string& id) {
  const auto found = watched_.find(id);
  if (found == watched_.end()) return;
  loop_.Cancel(std::exchange(found->second.timer, 0));
}

void IdleWatch::Look(const std::string& id) {
  Watched& watched = watched_.at(id);
  watched.timer = 0;
  const int64_t now_us = clock_.BootMicros();
  const auto cpu = cpu_micros_(watched.slot);
  const auto most = static_cast<uint64_t>((now_us - watched.looked_us) / kShare);
  // What cannot be told is not taken for idleness.
  const bool computes = !cpu || *cpu > watched.cpu_micros + most;
  if (cpu) watched.cpu_micros = *cpu;
  watched.looked_us = now_us;
  if (computes || watched.uses->open > 0) watched.uses->last_us = now_us;
  const int64_t left_us = watched.uses->last_us + watched.after_us - now_us;
  if (left_us <= 0) return idle_(id);
  watched.timer = loop_.After(std::min({left_us, watched.after_us / kLooks, kLongestUs}),
                              [this, id] { Look(id); });
}

std::shared_ptr<const void> IdleWatch::Use(const std::string& id) {
  const std::shared_ptr<Uses>& uses = watched_[id].uses;
  ++uses->open;
  return {uses.get(), [uses, &clock = clock_](const Uses*) {
            --uses->open;
            uses->last_us = clock.BootMicros();
          }};
}

}  // namespace atl::sandbox
