#include "netpolicy/splice/client_hello.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "netpolicy/splice/host_name.h"

namespace atl::netpolicy {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr size_t kMaxRecord = 1 << 14;
constexpr size_t kMessageHeader = 4;
constexpr size_t kRandomSize = 32;
constexpr size_t kMaxSessionId = 32;
constexpr uint16_t kServerName = 0;
constexpr uint16_t kEarlyData = 42;
constexpr uint16_t kEncryptedClientHello = 0xfe0d;
constexpr uint16_t kEncryptedServerName = 0xffce;
constexpr uint8_t kNameTypeHost = 0;

// A cursor that takes from the front. Once something was missing, it stays failed.
class Reader {
 public:
  explicit Reader(Bytes bytes) : rest_(bytes) {}

  Bytes Take(size_t n) {
    if (n > rest_.size()) {
      failed_ = true;
      rest_ = {};
    }
    const Bytes taken = rest_.first(failed_ ? 0 : n);
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  size_t Number(size_t bytes) {
    size_t value = 0;
    for (const uint8_t byte : Take(bytes)) value = value << 8 | byte;
    return value;
  }
  // Takes a vector whose length is in the `bytes` bytes before it.
  Bytes Vector(size_t bytes) { return Take(Number(bytes)); }

  bool empty() const { return rest_.empty(); }
  bool failed() const { return failed_; }
  bool ended() const { return empty() && !failed_; }

 private:
  Bytes rest_;
  bool failed_ = false;
};

ClientHelloRead Refused(const char* reason) {
  return {.state = ClientHelloRead::State::kRefused, .hello = {}, .reason = reason};
}

// Returns nullptr, or what is wrong. Exactly one name is accepted: RFC 6066 forbids a second one of
// the same type, and no other type exists.
const char* ReadServerName(Bytes extension, std::string& name) {
  Reader reader(extension);
  Reader list(reader.Vector(2));
  const size_t type = list.Number(1);
  const Bytes text = list.Vector(2);
  if (!reader.ended() || !list.ended() || type != kNameTypeHost) return "malformed server name";
  const std::string_view view(reinterpret_cast<const char*>(text.data()), text.size());
  auto normal = NormalHostName(view);
  if (!normal) return "server name is not a host name";
  name = std::move(*normal);
  return nullptr;
}

const char* ReadExtensions(Bytes extensions, ClientHello& hello) {
  Reader reader(extensions);
  std::vector<uint16_t> types;
  while (!reader.empty()) {
    const auto type = static_cast<uint16_t>(reader.Number(2));
    const Bytes data = reader.Vector(2);
    if (reader.failed()) break;
    types.push_back(type);
    if (type == kEncryptedClientHello || type == kEncryptedServerName) hello.encrypted = true;
    if (type == kEarlyData) hello.early_data = true;
    if (type != kServerName) continue;
    if (const char* wrong = ReadServerName(data, hello.name)) return wrong;
  }
  if (reader.failed()) return "malformed TLS extensions";
  // If there are two server_name extensions, the server might use the other one.
  std::sort(types.begin(), types.end());
  if (std::adjacent_find(types.begin(), types.end()) != types.end()) {
    return "a TLS extension comes twice";
  }
  return nullptr;
}

ClientHelloRead ReadBody(Bytes body) {
  ClientHelloRead read;
  read.state = ClientHelloRead::State::kWhole;
  Reader reader(body);
  const size_t version = reader.Number(2);
  reader.Take(kRandomSize);
  const Bytes session = reader.Vector(1);
  const Bytes ciphers = reader.Vector(2);
  const Bytes compressions = reader.Vector(1);
  if (reader.failed() || version >> 8 != 3 || session.size() > kMaxSessionId || ciphers.empty() ||
      ciphers.size() % 2 != 0 || compressions.empty()) {
    return Refused("malformed TLS client hello");
  }
  if (reader.empty()) return read;  // SSL 3.0 and TLS 1.0 allow a hello without extensions
  const Bytes extensions = reader.Vector(2);
  if (!reader.ended()) return Refused("malformed TLS client hello");
  if (const char* wrong = ReadExtensions(extensions, read.hello)) return Refused(wrong);
  return read;
}

// The part of a message that has arrived, joined from its records.
struct Joined {
  std::vector<uint8_t> message;
  size_t size = 0;  // size of the records so far
  bool whole = false;
  const char* wrong = nullptr;
};

Joined JoinRecords(Bytes bytes) {
  Joined joined;
  std::vector<uint8_t>& message = joined.message;
  message.reserve(bytes.size());
  while (!bytes.empty() && !joined.whole) {
    if (bytes[0] != kTlsHandshakeRecord || (bytes.size() > 1 && bytes[1] != 3)) {
      joined.wrong = "not a TLS client hello";
      return joined;
    }
    if (bytes.size() < kTlsRecordHeader) return joined;
    const size_t size = static_cast<size_t>(bytes[3]) << 8 | bytes[4];
    if (size == 0 || size > kMaxRecord) {
      joined.wrong = "not a TLS client hello";
      return joined;
    }
    bytes = bytes.subspan(kTlsRecordHeader);
    const Bytes content = bytes.first(std::min(size, bytes.size()));
    message.insert(message.end(), content.begin(), content.end());
    bytes = bytes.subspan(content.size());
    joined.size += kTlsRecordHeader + size;
    const auto whole = TlsMessageSize(message);
    if (!whole) continue;
    joined.whole = message.size() >= *whole;
    // No client appends another message to the hello's last record, and a server that reads it
    // there may find another hello.
    if (joined.whole && message.size() + (size - content.size()) != *whole) {
      joined.wrong = "more than a TLS client hello in its record";
    }
  }
  return joined;
}

}  // namespace

std::optional<size_t> TlsMessageSize(Bytes message) {
  if (message.size() < kMessageHeader) return std::nullopt;
  Reader header(message.subspan(1));
  return kMessageHeader + header.Number(3);
}

ClientHelloRead ReadClientHelloMessage(Bytes message) {
  if (message.front() != kTlsClientHelloMessage) return Refused("not a TLS client hello");
  return ReadBody(message.subspan(kMessageHeader));
}

ClientHelloRead ReadClientHello(Bytes bytes) {
  const Joined joined = JoinRecords(bytes.first(std::min(bytes.size(), kMaxClientHello)));
  const std::vector<uint8_t>& message = joined.message;
  if (joined.wrong != nullptr) return Refused(joined.wrong);
  if (!message.empty() && message[0] != kTlsClientHelloMessage) {
    return Refused("not a TLS client hello");
  }
  if (const auto size = TlsMessageSize(message)) {
    if (*size > kMessageHeader + kMaxClientHello) return Refused("TLS client hello is too long");
    if (joined.whole) {
      ClientHelloRead read = ReadClientHelloMessage(message);
      read.size = joined.size;
      return read;
    }
  }
  if (bytes.size() >= kMaxClientHello) return Refused("TLS client hello is too long");
  return {};
}

}  // namespace atl::netpolicy
