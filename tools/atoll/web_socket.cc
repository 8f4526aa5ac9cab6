#include "tools/atoll/web_socket.h"

#include <sys/random.h>

#include <array>
#include <charconv>
#include <utility>

#include "runtime/http/base_url.h"
#include "tools/atoll/text.h"

namespace atl::cli {
namespace {

// What comes from a sandbox must not grow without end.
constexpr size_t kMaxMessage = 4 << 20;
constexpr size_t kMaxHead = 64 << 10;

// Sixteen random bytes in base64: a proxy between must not take our frames for another request's.
std::string Nonce() {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<unsigned char, 16> bytes{};
  [[maybe_unused]] const ssize_t n = getrandom(bytes.data(), bytes.size(), 0);
  std::string text;
  for (size_t i = 0; i < 15; i += 3) {
    const unsigned group = static_cast<unsigned>(bytes[i] << 16 | bytes[i + 1] << 8 | bytes[i + 2]);
    for (int shift = 18; shift >= 0; shift -= 6) text.push_back(kDigits[group >> shift & 63]);
  }
  const unsigned last = static_cast<unsigned>(bytes[15] << 4);
  text.append({kDigits[last >> 6 & 63], kDigits[last & 63], '=', '='});
  return text;
}

}  // namespace

Result<WebSocket> WebSocket::Connect(const std::string& base_url, const http::TlsContext* trust,
                                     const std::string& target, const http::Headers& headers) {
  ATOLL_ASSIGN(const http::BaseUrl url, http::ParseBaseUrl(base_url));
  ATOLL_ASSIGN(auto connected, http::ClientSocket::Connect(url, trust, -1));
  std::string request = "GET " + url.prefix + target + " HTTP/1.1\r\nHost: " + url.authority +
                        "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " +
                        Nonce() + "\r\n";
  for (const http::Header& header : headers.list) {
    if (header.value.find_first_of("\r\n") != std::string::npos) {
      return Fail(Code::kInvalidArgument, "the header " + header.name + " holds a line end");
    }
    request += header.name + ": " + header.value + "\r\n";
  }
  WebSocket socket(std::move(connected));
  ATOLL_TRY(socket.Handshake(request + "\r\n"));
  return socket;
}

Status WebSocket::Handshake(const std::string& request) {
  ATOLL_TRY(socket_.SendAll(request));
  http::Buffer input;
  size_t end = std::string::npos;
  while ((end = input.view().find("\r\n\r\n")) == std::string::npos) {
    ATOLL_ASSIGN(const bool more, socket_.Read(&input));
    if (!more || input.size() > kMaxHead) {
      return Fail(Code::kUnavailable, "the server broke the handshake off");
    }
  }
  pending_ = input.view();
  const std::string status = pending_.substr(0, pending_.find("\r\n"));
  if (status.find(" 101 ") == std::string::npos) {
    return Fail(Code::kUnavailable,
                "no terminal: " + Printable(status) + ": " + Printable(pending_.substr(end + 4)));
  }
  pending_.erase(0, end + 4);
  return {};
}

Status WebSocket::Send(Opcode opcode, std::string_view payload) {
  std::string frame(1, static_cast<char>(0x80 | opcode));
  if (payload.size() < 126) {
    frame.push_back(static_cast<char>(0x80 | payload.size()));
  } else {
    const bool is_short = payload.size() <= 0xffff;
    frame.push_back(static_cast<char>(0x80 | (is_short ? 126 : 127)));
    for (int shift = is_short ? 8 : 56; shift >= 0; shift -= 8) {
      frame.push_back(static_cast<char>(payload.size() >> shift & 0xff));
    }
  }
  std::array<char, 4> mask{};
  [[maybe_unused]] const ssize_t n = getrandom(mask.data(), mask.size(), 0);
  frame.append(mask.data(), mask.size());
  for (size_t i = 0; i < payload.size(); ++i) {
    frame.push_back(static_cast<char>(payload[i] ^ mask[i % 4]));
  }
  return socket_.SendAll(frame);
}

Result<bool> WebSocket::Receive(const OnMessage& on_message) {
  http::Buffer input;
  ATOLL_ASSIGN(const bool open, socket_.ReadSome(&input));
  pending_.append(input.view());
  while (!closed_) {
    ATOLL_ASSIGN(const bool taken, TakeFrame(on_message));
    if (!taken) return open;
  }
  return false;
}

Result<bool> WebSocket::TakeFrame(const OnMessage& on_message) {
  const auto byte = [this](size_t at) { return static_cast<unsigned char>(pending_[at]); };
  if (pending_.size() < 2) return false;
  if ((byte(0) & 0x70) != 0 || (byte(1) & 0x80) != 0) {
    return Fail(Code::kInternal, "the server sent a malformed frame");
  }
  uint64_t size = byte(1);
  size_t head = 2;
  if (size >= 126) {
    head += size == 126 ? 2 : 8;
    if (pending_.size() < head) return false;
    size = 0;
    for (size_t i = 2; i < head; ++i) size = size << 8 | byte(i);
  }
  if (size > kMaxMessage)
    return Fail(Code::kResourceExhausted, "the server sent a frame over 4 MiB");
  if (pending_.size() - head < size) return false;
  const auto opcode = static_cast<Opcode>(byte(0) & 0x0f);
  const bool final = (byte(0) & 0x80) != 0;
  ATOLL_TRY(Deliver(opcode, final, std::string_view(pending_).substr(head, size), on_message));
  pending_.erase(0, head + size);
  return true;
}

Status WebSocket::Deliver(Opcode opcode, bool final, std::string_view payload,
                          const OnMessage& on_message) {
  switch (opcode) {
    case kPing:
      return Send(kPong, payload);
    case kPong:
      return {};
    case kClose:
      closed_ = true;
      return {};
    default:
      break;
  }
  if (opcode != kContinuation) message_kind_ = opcode;
  if (message_.size() + payload.size() > kMaxMessage) {
    return Fail(Code::kResourceExhausted, "the server sent a message over 4 MiB");
  }
  message_.append(payload);
  if (!final) return {};
  on_message(message_kind_ == kText, message_);
  message_.clear();
  return {};
}

}  // namespace atl::cli
