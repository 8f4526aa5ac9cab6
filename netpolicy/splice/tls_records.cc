#include "netpolicy/splice/tls_records.h"

#include <algorithm>
#include <utility>

namespace atl::netpolicy {
namespace {

constexpr uint8_t kChangeCipherSpec = 20, kAlert = 21, kApplicationData = 23;
// The first messages of a TLS 1.2 client after its hello (RFC 5246 section 7.4, RFC 4680).
constexpr uint8_t kCertificate = 11, kClientKeyExchange = 16, kSupplementalData = 23;
// Some stacks skip application data before a second hello even if the first hello announced none.
// They skip 16 KiB of it.
constexpr size_t kMaxUnannouncedData = 32 * 1024;

bool FollowsAHello(uint8_t message) {
  return message == kCertificate || message == kClientKeyExchange || message == kSupplementalData;
}

TlsRecords::Piece RefusedPiece(const char* reason) {
  return {.kind = TlsRecords::Kind::kRefused, .reason = reason};
}

}  // namespace

TlsRecords::Piece TlsRecords::Take(std::string_view bytes) {
  if (left_ > 0) {
    const auto size = static_cast<size_t>(std::min<uint64_t>(left_, bytes.size()));
    left_ -= size;
    return {.kind = Kind::kPass, .size = size};
  }
  if (bytes.empty()) return {};
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  // TLS before 1.2 says that records of unknown types are skipped.
  if (byte(0) < kChangeCipherSpec || byte(0) > kApplicationData) {
    return RefusedPiece("not TLS behind a client hello");
  }
  if (bytes.size() < kTlsRecordHeader) return {};
  const size_t size = static_cast<size_t>(byte(3)) << 8 | byte(4);
  switch (byte(0)) {
    case kTlsHandshakeRecord:
      return TakeHandshake(bytes, size);
    case kChangeCipherSpec:
      cipher_changed_ = true;
      break;
    case kApplicationData:
      // The server may still ask for a second hello. Its answers are not inspected, so connections
      // with early data are inspected to their end.
      data_ += size;
      if (!first_.early_data && data_ > kMaxUnannouncedData) return {.kind = Kind::kOpaque};
      break;
    default:
      break;
  }
  left_ = kTlsRecordHeader + size;
  return Take(bytes);
}

TlsRecords::Piece TlsRecords::TakeHandshake(std::string_view bytes, size_t size) {
  // RFC 8446 section 5.1 forbids empty handshake records, but OpenSSL skips them.
  if (size == 0) return RefusedPiece("empty TLS handshake record");
  if (message_.empty()) {
    if (bytes.size() == kTlsRecordHeader) return {};
    const auto kind = static_cast<uint8_t>(bytes[kTlsRecordHeader]);
    if (kind != kTlsClientHelloMessage) {
      // Up to TLS 1.2 the handshake continues in clear, or encrypted if a session is resumed. No
      // hello can follow in either case.
      if (cipher_changed_ || FollowsAHello(kind)) return {.kind = Kind::kOpaque};
      return RefusedPiece("unexpected TLS handshake message behind a client hello");
    }
  }
  if (kTlsRecordHeader + message_.size() + size > kMaxClientHello) {
    return RefusedPiece("TLS client hello is too long");
  }
  if (bytes.size() < kTlsRecordHeader + size) return {};
  const std::string_view content = bytes.substr(kTlsRecordHeader, size);
  message_.insert(message_.end(), content.begin(), content.end());
  if (const char* wrong = JudgeHello()) return RefusedPiece(wrong);
  return {.kind = Kind::kPass, .size = kTlsRecordHeader + size};
}

// Returns nullptr, or what is wrong with the hello in message_. An incomplete hello is accepted,
// because no server acts on it. One encrypted message in 256 also looks like an incomplete hello.
const char* TlsRecords::JudgeHello() {
  const auto whole = TlsMessageSize(message_);
  if (!whole || message_.size() < *whole) return nullptr;
  if (message_.size() > *whole) return "more than a TLS client hello in its record";
  const auto read = ReadClientHelloMessage(message_);
  message_.clear();
  if (read.state == ClientHelloRead::State::kRefused) return read.reason;
  if (read.hello.name == first_.name && read.hello.encrypted == first_.encrypted) return nullptr;
  return "another name in a second TLS client hello";
}

}  // namespace atl::netpolicy
