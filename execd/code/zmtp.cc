#include "execd/code/zmtp.h"

#include <algorithm>

namespace atl::execd {
namespace {

constexpr size_t kGreetingSize = 64;
constexpr size_t kMechanismAt = 12, kMechanismSize = 20;
constexpr uint8_t kMore = 1, kLong = 2, kCommand = 4;
// Memory that a frame takes besides its bytes: the std::string object that holds them.
constexpr size_t kFrameCost = sizeof(std::string);

void AppendBigEndian(std::string* out, uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) out->push_back(static_cast<char>(value >> (8 * i)));
}

uint64_t BigEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (const char byte : bytes) value = (value << 8) | static_cast<unsigned char>(byte);
  return value;
}

void AppendFrame(std::string* out, uint8_t flags, std::string_view body) {
  const bool is_long = body.size() > 255;
  out->push_back(static_cast<char>(flags | (is_long ? kLong : 0)));
  AppendBigEndian(out, body.size(), is_long ? 8 : 1);
  out->append(body);
}

tl::unexpected<Error> Violation(std::string_view what) {
  return Fail(Code::kInvalidArgument, "zmtp: " + std::string(what));
}

// Removes `text` from `*rest`. The number in its first `digits` bytes is the size of `text`.
bool TakeCounted(std::string_view* rest, size_t digits, std::string_view* text) {
  if (rest->size() < digits) return false;
  const uint64_t size = BigEndian(rest->substr(0, digits));
  rest->remove_prefix(digits);
  if (rest->size() < size) return false;
  *text = rest->substr(0, size);
  rest->remove_prefix(size);
  return true;
}

}  // namespace

std::string ZmtpHello(std::string_view socket_type) {
  std::string hello("\xFF\0\0\0\0\0\0\0\0\x7F\x03\0NULL", 16);
  hello.resize(kGreetingSize, '\0');
  std::string ready("\x05READY\x0BSocket-Type");
  AppendBigEndian(&ready, socket_type.size(), 4);
  ready.append(socket_type);
  AppendFrame(&hello, kCommand, ready);
  return hello;
}

void AppendZmtpMessage(std::string* out, std::initializer_list<std::string_view> frames) {
  size_t left = frames.size();
  for (const std::string_view frame : frames) AppendFrame(out, --left > 0 ? kMore : 0, frame);
}

size_t ZmtpReader::g_held = 0;

Status ZmtpReader::Feed(std::string_view bytes, const Sink& sink) {
  while (!bytes.empty()) {
    if (state_ == State::kGreeting) {
      const size_t size = std::min(bytes.size(), kGreetingSize - head_.size());
      head_.append(bytes.substr(0, size));
      bytes.remove_prefix(size);
      ATOLL_TRY(TakeGreeting());
    } else if (!in_frame_) {
      head_.push_back(bytes.front());
      bytes.remove_prefix(1);
      ATOLL_TRY(TakeHead());
      // An empty body is complete already.
      if (in_frame_ && left_ == 0) ATOLL_TRY(TakeBody(&bytes, sink));
    } else {
      ATOLL_TRY(TakeBody(&bytes, sink));
    }
  }
  return {};
}

// Checks every byte as it arrives. So a peer that speaks another protocol is detected by its first
// bytes, without a wait for all 64.
Status ZmtpReader::TakeGreeting() {
  if (head_[0] != '\xFF' || (head_.size() > 9 && (head_[9] & 1) == 0)) {
    return Violation("no greeting");
  }
  if (head_.size() > 10 && head_[10] < 3) return Violation("version before 3.0");
  if (head_.size() < kGreetingSize) return {};
  std::string null("NULL");
  null.resize(kMechanismSize, '\0');
  if (head_.compare(kMechanismAt, kMechanismSize, null) != 0) {
    return Violation("mechanism is not NULL");
  }
  head_.clear();
  state_ = State::kReady;
  return {};
}

Status ZmtpReader::TakeHead() {
  flags_ = static_cast<uint8_t>(head_[0]);
  if ((flags_ & ~(kMore | kLong | kCommand)) != 0 || (flags_ & (kMore | kCommand)) == 5) {
    return Violation("frame flags " + std::to_string(flags_));
  }
  const size_t digits = (flags_ & kLong) != 0 ? 8 : 1;
  if (head_.size() < 1 + digits) return {};
  left_ = BigEndian(std::string_view(head_).substr(1));
  head_.clear();
  in_frame_ = true;
  if ((flags_ & kCommand) != 0) {
    if (left_ > kMaxCommand) return Violation("command of more than 4 KiB");
    return {};
  }
  if (state_ != State::kMessages) return Violation("message before READY");
  if (left_ >> 63) return Violation("frame of more than 2^63 bytes");
  if (message_.oversized) return {};
  if (message_.frames.size() == kMaxFrames) return Violation("message of more than 256 frames");
  if (left_ > kMaxMessage || held_ + left_ + kFrameCost > kMaxMessage) {
    PassOver();
  } else {
    message_.frames.emplace_back();
    Hold(held_ + kFrameCost);
  }
  return {};
}

Status ZmtpReader::TakeBody(std::string_view* bytes, const Sink& sink) {
  const std::string_view piece = bytes->substr(0, std::min<uint64_t>(bytes->size(), left_));
  bytes->remove_prefix(piece.size());
  left_ -= piece.size();
  const bool command = (flags_ & kCommand) != 0;
  if (command) {
    command_.append(piece);
  } else if (!message_.oversized) {
    // The limit on all streams together is reached, so this stream's message is skipped.
    if (g_held + piece.size() > kMaxHeld) {
      PassOver();
    } else {
      message_.frames.back().append(piece);
      Hold(held_ + piece.size());
    }
  }
  if (left_ > 0) return {};
  in_frame_ = false;
  if (command) {
    const std::string body = std::move(command_);
    command_.clear();
    return TakeCommand(body);
  }
  if ((flags_ & kMore) != 0) return {};
  ZmtpMessage message = std::move(message_);
  message_ = ZmtpMessage();
  Hold(0);
  sink(std::move(message));
  return {};
}

Status ZmtpReader::TakeCommand(std::string_view body) {
  std::string_view name;
  if (!TakeCounted(&body, 1, &name)) return Violation("malformed command");
  if (name == "ERROR") return Violation("the peer refuses: " + std::string(body.substr(0, 256)));
  if (state_ == State::kMessages)
    return {};  // commands of later versions, which were not requested
  if (name != "READY") return Violation("no READY");
  return TakeReady(body);
}

Status ZmtpReader::TakeReady(std::string_view properties) {
  bool known = false;
  while (!properties.empty()) {
    std::string_view name, value;
    if (!TakeCounted(&properties, 1, &name) || !TakeCounted(&properties, 4, &value)) {
      return Violation("malformed READY");
    }
    if (name != "Socket-Type") continue;
    known = value == peer_type_ || (peer_type_ == "PUB" && value == "XPUB");
  }
  if (!known) return Violation("the peer is no " + std::string(peer_type_));
  state_ = State::kMessages;
  return {};
}

void ZmtpReader::PassOver() {
  message_.frames = {};
  message_.oversized = true;
  Hold(0);
}

void ZmtpReader::Hold(size_t size) {
  g_held += size - held_;
  held_ = size;
}

}  // namespace atl::execd
