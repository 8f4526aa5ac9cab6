// Messages on a byte stream. Each is a frame: a 32-bit little-endian length and that many bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::wire {

std::string Frame(std::string_view message);

// Splits a stream that arrives in pieces into messages. Thread rule: a plain object.
class Frames {
 public:
  // A message longer than `most` is refused when its length arrives.
  explicit Frames(size_t most) : most_(most) {}

  void Append(std::string_view bytes) { bytes_.append(bytes); }
  // Returns the next message, valid until the next call on this object. Empty: it is not complete
  // yet. kInvalidArgument: it is too long, and the stream cannot be used any more.
  Result<std::optional<std::string_view>> Next();
  // Number of bytes that were appended but not returned.
  size_t pending() const { return bytes_.size() - taken_; }
  std::string TakePending();

 private:
  size_t most_;
  std::string bytes_;
  size_t taken_ = 0;
};

}  // namespace atl::wire
