// Messages on a byte stream: each is a frame, a 32-bit little-endian length and that many bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::wire {

std::string Frame(std::string_view message);

// Takes messages out of a stream that arrives in pieces. Thread rule: a plain object.
class Frames {
 public:
  // Of a longer message the announcement is refused.
  explicit Frames(size_t most) : most_(most) {}

  void Append(std::string_view bytes) { bytes_.append(bytes); }
  // Valid until the next call of anything here. Nothing: the next message is not there in full.
  // kInvalidArgument: it is too long, and the stream of no more use.
  Result<std::optional<std::string_view>> Next();
  // Bytes that no message has been taken from.
  size_t pending() const { return bytes_.size() - taken_; }
  std::string TakePending();

 private:
  size_t most_;
  std::string bytes_;
  size_t taken_ = 0;
};

}  // namespace atl::wire
