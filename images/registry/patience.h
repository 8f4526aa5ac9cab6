// The deadlines of a transfer from a registry: a short one for each next byte, and a long one for
// the whole transfer.
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

  // Readable once a deadline has passed.
  int fd() const { return timer_.get(); }
  // Restarts the short deadline after bytes arrived. Returns false if the long one has passed.
  bool Renew();
  // Waits for `milliseconds`. Returns false if a deadline has passed.
  bool Pause(int milliseconds);
  // Says which deadline has passed. Empty if none has.
  std::string reason() const;

 private:
  const UniqueFd timer_;
  const int64_t end_us_;  // monotonic clock
};

}  // namespace atl::images::registry
