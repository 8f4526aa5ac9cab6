#include "runtime/wire/frame.h"

#include <cstdint>
#include <utility>

#include "runtime/wire/bytes.h"

namespace atl::wire {

std::string Frame(std::string_view message) {
  Writer writer;
  writer.Text(message);
  return writer.Take();
}

Result<std::optional<std::string_view>> Frames::Next() {
  const std::string_view rest = std::string_view(bytes_).substr(taken_);
  Reader head(rest);
  const uint32_t size = head.U32();
  if (head.ok() && size > most_) {
    return Fail(Code::kInvalidArgument, "a message of " + std::to_string(size) +
                                            " bytes is announced, allowed are " +
                                            std::to_string(most_));
  }
  if (!head.ok() || rest.size() - sizeof size < size) {
    bytes_.erase(0, std::exchange(taken_, 0));
    // The memory is freed, because the stream may be silent for hours.
    if (bytes_.empty()) bytes_ = std::string();
    return std::nullopt;
  }
  taken_ += sizeof size + size;
  return rest.substr(sizeof size, size);
}

std::string Frames::TakePending() {
  bytes_.erase(0, std::exchange(taken_, 0));
  return std::exchange(bytes_, {});
}

}  // namespace atl::wire
