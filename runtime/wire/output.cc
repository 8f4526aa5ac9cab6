#include "runtime/wire/output.h"

namespace atl::wire {
namespace {

// No stream is that long, and sums of offsets below it do not overflow.
constexpr uint64_t kMaxOffset = 1ULL << 62;

bool WellFormed(const OutputFrame& frame) {
  if (frame.offset > kMaxOffset) return false;
  if (frame.kind == OutputFrame::Kind::kLost) return frame.lost > 0 && frame.lost <= kMaxOffset;
  return !frame.bytes.empty() && frame.bytes.size() <= kMaxOutputBytes;
}

}  // namespace

std::string OutputFrame::Encode() const {
  return Frame(EncodeFields(*this));
}

Result<std::optional<OutputFrame>> OutputFrames::Next() {
  ATOLL_ASSIGN(const std::optional<std::string_view> message, frames_.Next());
  if (!message) return std::nullopt;
  OutputFrame frame;
  if (!DecodeFields(*message, &frame) || !WellFormed(frame)) {
    return Fail(Code::kInvalidArgument, "output frame: malformed");
  }
  return frame;
}

}  // namespace atl::wire
