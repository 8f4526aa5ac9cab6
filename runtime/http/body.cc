#include "runtime/http/body.h"

#include <algorithm>
#include <cstring>

#include "runtime/http/ascii.h"

namespace atl::http {
namespace {

constexpr size_t kMaxExtensionBytes = 1024;
constexpr size_t kMaxTrailerBytes = 8192;
// 15 hexadecimal digits: 60 bits, so that no sum can wrap.
constexpr size_t kMaxSizeDigits = 15;

}  // namespace

BodyDecoder::BodyDecoder(const Framing& framing) {
  switch (framing.kind) {
    case Framing::Kind::kNone:
      break;
    case Framing::Kind::kLength:
      remaining_ = framing.length;
      state_ = remaining_ > 0 ? State::kLength : State::kDone;
      break;
    case Framing::Kind::kChunked:
      state_ = State::kChunkSize;
      break;
    case Framing::Kind::kUntilClose:
      state_ = State::kUntilClose;
      break;
  }
}

Result<BodyDecoder::Decoded> BodyDecoder::Decode(char* data, size_t size) {
  Decoded out;
  while (out.consumed < size && !done()) {
    if (state_ == State::kUntilClose) {
      out = {size, size};
    } else if (state_ == State::kLength || state_ == State::kChunkData) {
      const auto run = static_cast<size_t>(std::min<uint64_t>(remaining_, size - out.consumed));
      if (out.size != out.consumed) std::memmove(data + out.size, data + out.consumed, run);
      out.size += run;
      out.consumed += run;
      remaining_ -= run;
      if (remaining_ == 0) {
        state_ = state_ == State::kLength ? State::kDone : State::kChunkDataCr;
      }
    } else if (!StepFraming(data[out.consumed++])) {
      return Fail(Code::kInvalidArgument, "malformed chunked body");
    }
  }
  return out;
}

bool BodyDecoder::StepFraming(char c) {
  switch (state_) {
    case State::kChunkSize:
      return StepChunkSize(c);
    case State::kChunkExtension:
      if (c == '\r') {
        state_ = State::kChunkSizeLf;
        return true;
      }
      return IsValueChar(c) && ++framing_bytes_ <= kMaxExtensionBytes;
    case State::kChunkSizeLf:
      state_ = remaining_ > 0 ? State::kChunkData : State::kTrailerStart;
      framing_bytes_ = 0;
      return c == '\n';
    case State::kChunkDataCr:
      state_ = State::kChunkDataLf;
      return c == '\r';
    case State::kChunkDataLf:
      state_ = State::kChunkSize;
      size_digits_ = 0;
      return c == '\n';
    default:
      return StepTrailer(c);
  }
}

bool BodyDecoder::StepChunkSize(char c) {
  const int digit = HexValue(c);
  if (digit >= 0) {
    remaining_ = remaining_ * 16 + static_cast<uint64_t>(digit);
    return ++size_digits_ <= kMaxSizeDigits;
  }
  if (size_digits_ == 0) return false;
  framing_bytes_ = 0;
  if (c == '\r') {
    state_ = State::kChunkSizeLf;
    return true;
  }
  // No blank before the ';': some parsers skip it, some end the line there.
  state_ = State::kChunkExtension;
  return c == ';';
}

bool BodyDecoder::StepTrailer(char c) {
  switch (state_) {
    case State::kTrailerStart:
      if (c == '\r') {
        state_ = State::kLastLf;
        return true;
      }
      state_ = State::kTrailer;
      return IsTokenChar(c) && ++framing_bytes_ <= kMaxTrailerBytes;
    case State::kTrailer:
      if (c == '\r') {
        state_ = State::kTrailerLf;
        return true;
      }
      return IsValueChar(c) && ++framing_bytes_ <= kMaxTrailerBytes;
    case State::kTrailerLf:
      state_ = State::kTrailerStart;
      return c == '\n';
    case State::kLastLf:
      state_ = State::kDone;
      return c == '\n';
    default:
      return false;
  }
}

}  // namespace atl::http
