#include "runtime/wire/output.h"

#include "runtime/wire/bytes.h"

namespace atl::wire {
namespace {

constexpr size_t kLength = 4;
// No stream is that long; sums of offsets below it do not wrap.
constexpr uint64_t kMaxOffset = 1ULL << 62;

}  // namespace

std::string OutputFrame::Encode() const {
  Writer writer;
  const bool is_lost = kind == Kind::kLost;
  const size_t body = 1 + 8 + 8 + (is_lost ? 8 : 4 + bytes.size());
  writer.U32(static_cast<uint32_t>(body));
  writer.U8(static_cast<uint8_t>(kind));
  writer.I64(time_us);
  writer.U64(offset);
  if (is_lost) {
    writer.U64(lost);
  } else {
    writer.Text(bytes);
  }
  return writer.Take();
}

Result<OutputFrame> DecodeOutputFrame(std::string_view bytes) {
  Reader reader(bytes);
  OutputFrame frame;
  frame.kind = static_cast<OutputFrame::Kind>(reader.U8());
  frame.time_us = reader.I64();
  frame.offset = reader.U64();
  bool good = frame.offset <= kMaxOffset;
  switch (frame.kind) {
    case OutputFrame::Kind::kLost:
      frame.lost = reader.U64();
      good = good && frame.lost > 0 && frame.lost <= kMaxOffset;
      break;
    case OutputFrame::Kind::kStdout:
    case OutputFrame::Kind::kStderr:
      frame.bytes = reader.Text();
      good = good && !frame.bytes.empty() && frame.bytes.size() <= kMaxOutputBytes;
      break;
    default:
      good = false;
  }
  if (!good || !reader.complete()) {
    return Fail(Code::kInvalidArgument, "output frame: malformed");
  }
  return frame;
}

Result<std::optional<OutputFrame>> OutputFrames::Next() {
  const std::string_view rest = std::string_view(bytes_).substr(taken_);
  Reader head(rest);
  const uint32_t size = head.U32();
  if (head.ok() && size > kMaxOutputFrame) {
    return Fail(Code::kInvalidArgument, "output frame of " + std::to_string(size) +
                                            " bytes, allowed are " +
                                            std::to_string(kMaxOutputFrame));
  }
  if (!head.ok() || rest.size() - kLength < size) {
    bytes_.erase(0, taken_);
    taken_ = 0;
    // A stream may be silent for hours after this.
    if (bytes_.empty()) bytes_ = std::string();
    return std::nullopt;
  }
  taken_ += kLength + size;
  ATOLL_ASSIGN(OutputFrame frame, DecodeOutputFrame(rest.substr(kLength, size)));
  return frame;
}

}  // namespace atl::wire
