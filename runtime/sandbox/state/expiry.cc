#include "runtime/sandbox/state/expiry.h"

#include <algorithm>

namespace atl::sandbox {
namespace {

constexpr int64_t kLongestSleepMs = 30 * 1000;
// Extension of a sandbox that its client wants removed at its end (`atoll run -d --rm`). It can be
// read a while longer, for clients that wait for its exit code.
constexpr char kRemoveAtEnd[] = "atoll.rm";
constexpr int64_t kRemovedAfterMs = 60 * 1000;

}  // namespace

void Expiry::Set(const std::string& id, int64_t unix_ms) {
  Remove(id);
  by_time_.emplace(unix_ms, id);
  by_id_.emplace(id, unix_ms);
  Arm();
}

void Expiry::Remove(const std::string& id) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  by_time_.erase({found->second, id});
  by_id_.erase(found);
  // The timer stays. If it is now too early, it costs one look-up.
}

void Expiry::SetDeadline(const Sandbox& sandbox) {
  std::optional<int64_t> deadline = sandbox.expires_at_ms;
  if (IsOver(sandbox.state)) {
    const int64_t ended = sandbox.transition_at_ms;
    if (!deadline && keep_ended_seconds_) deadline = ended + *keep_ended_seconds_ * 1000;
    const auto asked = sandbox.spec.extensions.find(kRemoveAtEnd);
    if (asked != sandbox.spec.extensions.end() && asked->second == "true") {
      deadline = std::min(deadline.value_or(INT64_MAX), ended + kRemovedAfterMs);
    }
  }
  if (deadline) Set(sandbox.id, *deadline);
}

void Expiry::Arm() {
  if (by_time_.empty()) return;
  const int64_t earliest = by_time_.begin()->first;
  if (timer_ != 0) {
    if (armed_for_ <= earliest) return;
    loop_.Cancel(timer_);
  }
  armed_for_ = earliest;
  const int64_t wait_ms = std::clamp<int64_t>(earliest - clock_.UnixMillis(), 0, kLongestSleepMs);
  timer_ = loop_.After(wait_ms * 1000, [this] { Fire(); });
}

void Expiry::Fire() {
  timer_ = 0;
  const int64_t now = clock_.UnixMillis();
  while (!by_time_.empty() && by_time_.begin()->first <= now) {
    const std::string id = by_time_.begin()->second;
    Remove(id);
    expired_(id);
  }
  Arm();
}

}  // namespace atl::sandbox
