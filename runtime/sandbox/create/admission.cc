#include "runtime/sandbox/create/admission.h"

#include <cerrno>
#include <string>

namespace atl::sandbox {

Status Admission::Enter(std::function<void()> run) {
  if (active_ >= at_once_ && queue_.size() >= queue_limit_) {
    return Fail(Error(Code::kResourceExhausted,
                      "too many sandboxes are being created at once (" +
                          std::to_string(queue_.size()) + " are waiting); try again in a moment",
                      EAGAIN));
  }
  queue_.push_back(std::move(run));
  Drain();
  return {};
}

void Admission::Leave() {
  ATOLL_CHECK(active_ > 0);
  --active_;
  Drain();
}

void Admission::Drain() {
  // A run that fails at once calls Leave from inside this loop. The flag prevents recursion, which
  // would be deep for a full queue of failures.
  if (draining_) return;
  draining_ = true;
  while (active_ < at_once_ && !queue_.empty()) {
    auto run = std::move(queue_.front());
    queue_.pop_front();
    ++active_;
    run();
  }
  draining_ = false;
}

}  // namespace atl::sandbox
