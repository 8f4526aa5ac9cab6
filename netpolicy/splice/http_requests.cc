#include "netpolicy/splice/http_requests.h"

#include <algorithm>
#include <charconv>

namespace atl::netpolicy {
namespace {

using Piece = HttpRequests::Piece;
using Kind = HttpRequests::Kind;

// A chunk's size with its extensions, which nobody uses.
constexpr size_t kMaxChunkLine = 1024;
// 2^60 - 1: never near an overflow.
constexpr size_t kMaxChunkDigits = 15;

bool EndsInCarriageReturn(std::string_view line) {
  return line.ends_with('\r');
}

bool IsPlain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  });
}

}  // namespace

Piece HttpRequests::Refuse(const char* reason) {
  state_ = State::kBad;
  return {Kind::kRefused, 0, reason};
}

Piece HttpRequests::Take(std::string_view bytes) {
  if (bytes.empty()) return {};
  switch (state_) {
    case State::kHead:
      return TakeHead(bytes);
    case State::kData:
    case State::kChunkData:
      return TakeData(bytes);
    case State::kChunkSize:
      return TakeChunkSize(bytes);
    case State::kChunkEnd:
      return TakeChunkEnd(bytes);
    case State::kTrailers:
      return TakeTrailer(bytes);
    case State::kBad:
      break;
  }
  return Refuse("malformed HTTP request");
}

Piece HttpRequests::TakeHead(std::string_view bytes) {
  const std::string_view window = bytes.substr(0, kMaxHttpHead);
  while (true) {
    const size_t end = window.find('\n', scanned_);
    if (end == std::string_view::npos) break;
    const std::string_view line = window.substr(line_, end - line_);
    // Many servers take a bare line feed for the end of a line: then they see other lines than we.
    if (!EndsInCarriageReturn(line)) return Refuse("HTTP line without a carriage return");
    scanned_ = line_ = end + 1;
    if (line.size() > 1) continue;
    if (const char* wrong = ReadHttpHead(window.substr(0, line_), head_)) return Refuse(wrong);
    const size_t size = line_;
    scanned_ = line_ = 0;
    left_ = head_.length;
    if (head_.body == HttpHead::Body::kLength) state_ = State::kData;
    if (head_.body == HttpHead::Body::kChunked) state_ = State::kChunkSize;
    return {Kind::kHead, size, nullptr};
  }
  scanned_ = window.size();
  if (window.size() == kMaxHttpHead) return Refuse("HTTP head is too long");
  return {};
}

Piece HttpRequests::TakeData(std::string_view bytes) {
  const auto size = static_cast<size_t>(std::min<uint64_t>(left_, bytes.size()));
  Skip(size);
  return {Kind::kBody, size, nullptr};
}

void HttpRequests::Skip(uint64_t bytes) {
  left_ -= bytes;
  if (left_ > 0) return;
  state_ = state_ == State::kData ? State::kHead : State::kChunkEnd;
}

Piece HttpRequests::TakeChunkSize(std::string_view bytes) {
  const std::string_view window = bytes.substr(0, kMaxChunkLine);
  const size_t end = window.find('\n');
  if (end == std::string_view::npos) {
    return window.size() == kMaxChunkLine ? Refuse("HTTP chunk line is too long") : Piece{};
  }
  std::string_view line = window.substr(0, end);
  if (!EndsInCarriageReturn(line)) return Refuse("HTTP line without a carriage return");
  line.remove_suffix(1);
  const std::string_view digits = line.substr(0, line.find(';'));
  uint64_t size = 0;
  const char* digits_end = digits.data() + digits.size();
  const auto [parsed, error] = std::from_chars(digits.data(), digits_end, size, 16);
  if (digits.empty() || digits.size() > kMaxChunkDigits || error != std::errc() ||
      parsed != digits_end || !IsPlain(line)) {
    return Refuse("malformed HTTP chunk");
  }
  left_ = size;
  trailer_bytes_ = 0;
  state_ = size == 0 ? State::kTrailers : State::kChunkData;
  return {Kind::kBody, end + 1, nullptr};
}

Piece HttpRequests::TakeChunkEnd(std::string_view bytes) {
  if (bytes.size() < 2) return bytes == "\r" ? Piece{} : Refuse("malformed HTTP chunk");
  if (!bytes.starts_with("\r\n")) return Refuse("malformed HTTP chunk");
  state_ = State::kChunkSize;
  return {Kind::kBody, 2, nullptr};
}

Piece HttpRequests::TakeTrailer(std::string_view bytes) {
  const std::string_view window = bytes.substr(0, kMaxHttpHead - trailer_bytes_);
  const size_t end = window.find('\n');
  if (end == std::string_view::npos) {
    return window.size() == kMaxHttpHead - trailer_bytes_ ? Refuse("HTTP trailer is too long")
                                                          : Piece{};
  }
  std::string_view line = window.substr(0, end);
  if (!EndsInCarriageReturn(line)) return Refuse("HTTP line without a carriage return");
  line.remove_suffix(1);
  trailer_bytes_ += end + 1;
  if (line.empty()) {
    state_ = State::kHead;
    return {Kind::kBody, end + 1, nullptr};
  }
  std::string_view name, value;
  if (const char* wrong = ReadHttpField(line, name, value)) return Refuse(wrong);
  // RFC 9110 6.5.1: no framing and no routing there. A server that merges them would be led astray.
  for (const std::string_view refused : {"host", "content-length", "transfer-encoding"}) {
    if (EqualIgnoringCase(name, refused)) return Refuse("HTTP trailer with a field of the head");
  }
  return {Kind::kBody, end + 1, nullptr};
}

UpgradeAnswer::State UpgradeAnswer::Feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = std::min(bytes.find('\n'), bytes.size());
    const size_t taken = std::min(end + 1, bytes.size());
    if ((bytes_ += taken) > kMaxHttpHead) return State::kBroken;
    line_.append(bytes.substr(0, end));
    bytes.remove_prefix(taken);
    if (end == taken) return State::kMore;
    if (line_.ends_with('\r')) line_.pop_back();
    const State state = OnLine(line_);
    line_.clear();
    if (state != State::kMore) return state;
  }
  return State::kMore;
}

UpgradeAnswer::State UpgradeAnswer::OnLine(std::string_view line) {
  if (in_fields_) {
    if (line.empty()) in_fields_ = false;
    return State::kMore;
  }
  constexpr std::string_view kVersion = "HTTP/1.";
  constexpr size_t kCodeAt = 9;  // "HTTP/1.1 101"
  unsigned code = 0;
  if (!line.starts_with(kVersion) || line.size() < kCodeAt + 3) return State::kBroken;
  const char* end = line.data() + kCodeAt + 3;
  const auto [parsed, error] = std::from_chars(line.data() + kCodeAt, end, code);
  if (error != std::errc() || parsed != end || code < 100) return State::kBroken;
  if (code == 101) return State::kSwitched;
  if (code >= 200) return State::kRefused;
  in_fields_ = true;
  return State::kMore;
}

}  // namespace atl::netpolicy
