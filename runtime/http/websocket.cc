#include "runtime/http/websocket.h"

#include <algorithm>

#include "runtime/base/base64.h"

namespace atl::http {
namespace {

// SHA-1 (FIPS 180-4) of a short text. The handshake requires it; nothing relies on its strength.
std::string Sha1(std::string message) {
  const auto rotate = [](uint32_t value, int by) { return (value << by) | (value >> (32 - by)); };
  const uint64_t bits = message.size() * 8;
  message.push_back('\x80');
  while (message.size() % 64 != 56) message.push_back('\0');
  for (int i = 7; i >= 0; --i) message.push_back(static_cast<char>(bits >> (8 * i)));
  uint32_t h[5] = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
  for (size_t block = 0; block < message.size(); block += 64) {
    uint32_t w[80];
    for (size_t i = 0; i < 16; ++i) {
      w[i] = 0;
      for (size_t j = 0; j < 4; ++j) {
        w[i] = (w[i] << 8) | static_cast<unsigned char>(message[block + i * 4 + j]);
      }
    }
    for (size_t i = 16; i < 80; ++i) {
      w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    }
    uint32_t a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
    for (size_t i = 0; i < 80; ++i) {
      const uint32_t f = i < 20   ? (b & c) | (~b & d)
                         : i < 40 ? b ^ c ^ d
                         : i < 60 ? (b & c) | (b & d) | (c & d)
                                  : b ^ c ^ d;
      const uint32_t k = i < 20   ? 0x5A827999
                         : i < 40 ? 0x6ED9EBA1
                         : i < 60 ? 0x8F1BBCDC
                                  : 0xCA62C1D6;
      const uint32_t next = rotate(a, 5) + f + e + k + w[i];
      e = d;
      d = c;
      c = rotate(b, 30);
      b = a;
      a = next;
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
    h[4] += e;
  }
  std::string digest;
  for (size_t i = 0; i < 20; ++i) {
    digest.push_back(static_cast<char>(h[i / 4] >> (24 - 8 * (i % 4))));
  }
  return digest;
}

void AppendFrameHead(std::string* out, Opcode opcode, bool masked, uint64_t size) {
  const uint8_t mask_bit = masked ? 0x80 : 0;
  const int bytes = size < 126 ? 0 : size < 65536 ? 2 : 8;
  const uint64_t length = bytes == 0 ? size : bytes == 2 ? 126 : 127;
  out->push_back(static_cast<char>(0x80 | static_cast<uint8_t>(opcode)));
  out->push_back(static_cast<char>(mask_bit | length));
  for (int i = bytes - 1; i >= 0; --i) out->push_back(static_cast<char>(size >> (8 * i)));
}

void Mask(char* bytes, size_t size, const char* mask) {
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(bytes[i] ^ mask[i & 3]);
}

}  // namespace

std::string WebSocketAccept(std::string_view key) {
  return EncodeBase64(Sha1(std::string(key) + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"));
}

Result<std::string> WebSocketHandshake(const Head& head) {
  const std::string* key = head.Find("sec-websocket-key");
  const std::string* version = head.Find("sec-websocket-version");
  if (!Lists(head.headers, "upgrade", "websocket") ||
      !Lists(head.headers, "connection", "upgrade")) {
    return Fail(Code::kInvalidArgument, "not a WebSocket upgrade request");
  }
  if (!version || *version != "13" || !key || key->size() != 24) {
    return Fail(Code::kInvalidArgument, "WebSocket upgrade: version 13 and a key are needed");
  }
  return "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
         "Sec-WebSocket-Accept: " +
         WebSocketAccept(*key) + "\r\n\r\n";
}

Status WebSocketReader::Feed(std::string_view bytes, Sink* sink) {
  if (closed_) return {};
  buffer_.append(bytes);
  while (!closed_) {
    const Result<bool> more = Frame(sink);
    if (!more) {
      // Bytes after an error are neither read nor kept.
      closed_ = true;
      buffer_.clear();
      return Fail(more.error());
    }
    if (!*more) break;
  }
  return {};
}

// Handles one complete frame from the buffer. Returns false if there is none yet.
Result<bool> WebSocketReader::Frame(Sink* sink) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(buffer_[i]); };
  if (buffer_.size() < 2) return false;
  const bool final = (byte(0) & 0x80) != 0;
  const uint8_t opcode = byte(0) & 0x0F;
  if ((byte(0) & 0x70) != 0) return Fail(Code::kInvalidArgument, "frame: reserved bits are set");
  const bool masked = (byte(1) & 0x80) != 0;
  if (masked != (from_ == From::kClient)) {
    return Fail(Code::kInvalidArgument, masked ? "frame: masked" : "frame: not masked");
  }
  const size_t mask_size = masked ? 4 : 0;
  uint64_t length = byte(1) & 0x7F;
  size_t head = 2;
  const size_t extra = length == 126 ? 2 : length == 127 ? 8 : 0;
  if (buffer_.size() < head + extra + mask_size) return false;
  if (extra > 0) {
    length = 0;
    for (size_t i = 0; i < extra; ++i) length = (length << 8) | byte(head + i);
    head += extra;
  }
  const bool control = opcode >= 8;
  if (control && (!final || length > 125)) {
    return Fail(Code::kInvalidArgument, "frame: bad control frame");
  }
  if (length > max_message_ || message_.size() + length > max_message_) {
    return Fail(Code::kResourceExhausted,
                "message over " + std::to_string(max_message_) + " bytes");
  }
  if (buffer_.size() < head + mask_size + length) return false;
  const size_t size = static_cast<size_t>(length);
  head += mask_size;
  if (masked) Mask(buffer_.data() + head, size, buffer_.data() + head - mask_size);
  const std::string_view payload = std::string_view(buffer_).substr(head, size);

  Status status;
  if (control) {
    status = Control(opcode, payload, sink);
  } else if (opcode == 0 ? message_opcode_ == 0 : (message_opcode_ != 0 || opcode > 2)) {
    return Fail(Code::kInvalidArgument, "frame: unexpected opcode");
  } else if (final && opcode != 0) {
    sink->OnMessage(opcode == 1, payload);
  } else {
    if (opcode != 0) message_opcode_ = opcode;
    message_.append(payload);
    if (final) {
      std::string whole;
      whole.swap(message_);
      const bool text = message_opcode_ == 1;
      message_opcode_ = 0;
      sink->OnMessage(text, whole);
    }
  }
  if (!status) return Fail(std::move(status).error());
  buffer_.erase(0, head + size);
  return true;
}

Status WebSocketReader::Control(uint8_t opcode, std::string_view payload, Sink* sink) {
  switch (static_cast<Opcode>(opcode)) {
    case Opcode::kPing:
      sink->OnPing(payload);
      return {};
    case Opcode::kPong:
      sink->OnPong();
      return {};
    case Opcode::kClose: {
      closed_ = true;
      if (payload.size() == 1) return Fail(Code::kInvalidArgument, "frame: bad close frame");
      const auto byte = [&](size_t i) { return static_cast<unsigned char>(payload[i]); };
      sink->OnClose(payload.empty() ? uint16_t{1005}
                                    : static_cast<uint16_t>(byte(0) << 8 | byte(1)));
      return {};
    }
    default:
      return Fail(Code::kInvalidArgument, "frame: unknown opcode");
  }
}

void FrameBoundary::Pass(std::string_view bytes) {
  while (!bytes.empty()) {
    if (payload_left_ != 0) {
      const auto passed = static_cast<size_t>(std::min<uint64_t>(payload_left_, bytes.size()));
      payload_left_ -= passed;
      bytes.remove_prefix(passed);
      continue;
    }
    head_[head_size_++] = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    if (head_size_ < 2) continue;
    const uint64_t length = head_[1] & 0x7F;
    const size_t extra = length == 126 ? 2 : length == 127 ? 8 : 0;
    const size_t mask = (head_[1] & 0x80) != 0 ? 4 : 0;
    if (head_size_ < 2 + extra + mask) continue;
    payload_left_ = extra == 0 ? length : 0;
    for (size_t i = 0; i < extra; ++i) payload_left_ = (payload_left_ << 8) | head_[2 + i];
    head_size_ = 0;
  }
}

void AppendFrame(std::string* out, Opcode opcode, std::string_view first, std::string_view second) {
  AppendFrameHead(out, opcode, false, first.size() + second.size());
  out->append(first).append(second);
}

void AppendMaskedFrame(std::string* out, Opcode opcode, std::string_view payload,
                       const std::array<char, 4>& mask) {
  AppendFrameHead(out, opcode, true, payload.size());
  out->append(mask.data(), mask.size()).append(payload);
  Mask(out->data() + out->size() - payload.size(), payload.size(), mask.data());
}

void AppendCloseFrame(std::string* out, uint16_t code, std::string_view reason) {
  const char head[2] = {static_cast<char>(code >> 8), static_cast<char>(code & 0xFF)};
  AppendFrame(out, Opcode::kClose, {head, 2}, reason.substr(0, 120));
}

}  // namespace atl::http
