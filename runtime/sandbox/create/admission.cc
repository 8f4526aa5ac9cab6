#include "runtime/sandbox/create/admission.h"

#include <algorithm>
#include <cerrno>
#include <string>

namespace atl::sandbox {

Status Admission::Enter(const std::string& tenant, std::function<void()> run) {
  const auto [found, is_new] = lines_.try_emplace(tenant);
  Line& line = found->second;
  if (is_new) {
    line.weight = weights_ ? std::max<uint32_t>(1, weights_(tenant)) : 1;
    line.next = served_;
  }
  if (active_ >= at_once_ && waiting_ >= queue_limit_ && line.waiting.size() >= ShareOf(line)) {
    const size_t own = line.waiting.size();
    if (is_new) lines_.erase(found);
    return Fail(Error(Code::kResourceExhausted,
                      "too many sandboxes are being created at once (" + std::to_string(own) +
                          " are waiting); try again in a moment",
                      EAGAIN));
  }
  if (line.waiting.empty()) line.next = std::max(line.next, served_);
  line.waiting.push_back(std::move(run));
  ++waiting_;
  Drain();
  return {};
}

void Admission::Leave(const std::string& tenant) {
  const auto found = lines_.find(tenant);
  ATOLL_CHECK(found != lines_.end() && found->second.active > 0);
  --found->second.active;
  --active_;
  Drain();
}

size_t Admission::ShareOf(const Line& line) const {
  uint64_t others = 0;
  for (const auto& [tenant, each] : lines_) {
    const bool counts = &each != &line && (each.active != 0 || !each.waiting.empty());
    if (counts) others += each.weight;
  }
  // Alone, a tenant is refused exactly when the queue is full.
  if (others == 0) return queue_limit_;
  return std::max<size_t>(1, queue_limit_ * line.weight / (others + line.weight));
}

Admission::Lines::iterator Admission::First() {
  auto first = lines_.end();
  for (auto line = lines_.begin(); line != lines_.end(); ++line) {
    if (line->second.waiting.empty()) continue;
    if (first == lines_.end() || line->second.next < first->second.next) first = line;
  }
  return first;
}

void Admission::Drain() {
  // A run that fails at once calls Leave from inside this loop. The flag prevents recursion, which
  // would be deep for a full queue of failures.
  if (draining_) return;
  draining_ = true;
  while (active_ < at_once_ && waiting_ != 0) {
    Line& line = First()->second;
    auto run = std::move(line.waiting.front());
    line.waiting.pop_front();
    --waiting_;
    ++line.active;
    ++active_;
    served_ = line.next;
    line.next += 1.0 / line.weight;
    run();
  }
  draining_ = false;
  // A line is forgotten once its number says nothing any more.
  std::erase_if(lines_, [this](const auto& entry) {
    const Line& line = entry.second;
    return line.active == 0 && line.waiting.empty() && (idle() || line.next <= served_);
  });
  if (lines_.empty()) served_ = 0;
}

}  // namespace atl::sandbox
