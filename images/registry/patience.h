// How long a registry is waited for: a while for each next byte, and a longer while for all of
// them.
//
// Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::images::registry {

class Patience {
 public:
  static constexpr int64_t kStallSeconds = 60;
  static constexpr int64_t kTotalSeconds = 3600;

  static Result<std::shared_ptr<Patience>> Start();
  explicit Patience(UniqueFd timer, int64_t end_us) : timer_(std::move(timer)), end_us_(end_us) {}

  // Readable once it is over.
  int fd() const { return timer_.get(); }
  // Something has come. False: it is over all the same.
  bool Renew();
  // Waits for so long. False: it is over.
  bool Pause(int milliseconds);
  // Why it is over, if it is.
  std::string reason() const;

 private:
  const UniqueFd timer_;
  const int64_t end_us_;  // of the monotonic clock
};

}  // namespace atl::images::registry
