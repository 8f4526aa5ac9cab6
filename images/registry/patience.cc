#include "images/registry/patience.h"

#include <poll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <ctime>

namespace atl::images::registry {
namespace {

constexpr int64_t kSecond = 1'000'000;

int64_t NowMicros() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kSecond + now.tv_nsec / 1000;
}

}  // namespace

Result<std::shared_ptr<Patience>> Patience::Start() {
  UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer) return FailSys("timerfd_create");
  const auto patience =
      std::make_shared<Patience>(std::move(timer), NowMicros() + kTotalSeconds * kSecond);
  patience->Renew();
  return patience;
}

bool Patience::Renew() {
  const int64_t left_us = end_us_ - NowMicros();
  // Zero would disarm the timer.
  const int64_t us = std::clamp<int64_t>(left_us, 1, kStallSeconds * kSecond);
  itimerspec when{};
  when.it_value = {us / kSecond, (us % kSecond) * 1000};
  ATOLL_CHECK(::timerfd_settime(timer_.get(), 0, &when, nullptr) == 0);
  return left_us > 0;
}

bool Patience::Pause(int milliseconds) {
  if (!Renew()) return false;
  pollfd over{timer_.get(), POLLIN, 0};
  return ::poll(&over, 1, milliseconds) <= 0;
}

std::string Patience::reason() const {
  if (NowMicros() >= end_us_) {
    return "it takes longer than " + std::to_string(kTotalSeconds) + " s";
  }
  return "no data has arrived for " + std::to_string(kStallSeconds) + " s";
}

}  // namespace atl::images::registry
