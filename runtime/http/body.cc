#include "runtime/http/body.h"

#include <algorithm>
#include <cstring>

#include "runtime/http/ascii.h"

namespace atl::http {
namespace {

constexpr size_t kMaxExtensionBytes = 1024;
constexpr size_t kMaxTrailerBytes = 8192;
// 15 hexadecimal digits are 60 bits, so sums cannot overflow.
constexpr size_t kMaxSizeDigits = 15;

// Returns true for fields that say where a message ends, whom it is for or what follows it. They
// are not allowed in trailers (RFC 9110 section 6.5.1), because a reader that treats trailers as
// fields of the head, such as llhttp, would be misled.
bool OnlyInHead(std::string_view name) {
  for (const std::string_view one :
       {"content-length", "transfer-encoding", "host", "connection", "upgrade"}) {
    if (EqualNoCase(name, one)) return true;
  }
  return false;
}

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

Result<BodyDecoder::Run> BodyDecoder::Next(std::string_view bytes) {
  if (state_ == State::kUntilClose) return Run{bytes.size(), true};
  if (const uint64_t left = body_left(); left > 0) {
    const auto size = static_cast<size_t>(std::min<uint64_t>(left, bytes.size()));
    Skip(size);
    return Run{size, true};
  }
  Run run;
  while (run.size < bytes.size() && body_left() == 0 && !done()) {
    if (!StepFraming(bytes[run.size++])) {
      state_ = State::kBad;
      return Fail(Code::kInvalidArgument, "malformed chunked body");
    }
  }
  return run;
}

void BodyDecoder::Skip(uint64_t bytes) {
  remaining_ -= bytes;
  if (remaining_ > 0) return;
  state_ = state_ == State::kLength ? State::kDone : State::kChunkDataCr;
}

Result<BodyDecoder::Decoded> BodyDecoder::Decode(char* data, size_t size) {
  Decoded out;
  while (out.consumed < size && !done()) {
    ATOLL_ASSIGN(const Run run, Next({data + out.consumed, size - out.consumed}));
    if (run.body) {
      if (out.size != out.consumed) std::memmove(data + out.size, data + out.consumed, run.size);
      out.size += run.size;
    }
    out.consumed += run.size;
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
  // No blank is accepted before the ';': some parsers skip it, some end the line there.
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
      trailer_name_.clear();
      state_ = State::kTrailerName;
      return StepTrailer(c);
    case State::kTrailerName:
      if (c == ':') {
        state_ = State::kTrailerValue;
        return !trailer_name_.empty() && !OnlyInHead(trailer_name_);
      }
      trailer_name_.push_back(c);
      return IsTokenChar(c) && ++framing_bytes_ <= kMaxTrailerBytes;
    case State::kTrailerValue:
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
