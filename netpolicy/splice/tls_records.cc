#include "netpolicy/splice/tls_records.h"

#include <algorithm>
#include <utility>

namespace atl::netpolicy {
namespace {

constexpr uint8_t kChangeCipherSpec = 20, kAlert = 21, kApplicationData = 23;

}  // namespace

TlsRecords::Piece TlsRecords::Take(std::string_view bytes) {
  if (left_ > 0) {
    const auto size = static_cast<size_t>(std::min<uint64_t>(left_, bytes.size()));
    left_ -= size;
    return {.kind = Kind::kPass, .size = size};
  }
  if (bytes.empty()) return {};
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  switch (byte(0)) {
    case kTlsHandshakeRecord:
      return TakeHandshake(bytes);
    case kChangeCipherSpec:
    case kAlert:
      break;
    case kApplicationData:
      // Data before the handshake's end, and the server may want a hello all the same. Whether it
      // does is in its answer, which is not looked at: such connections are read to their end.
      if (first_.early_data) break;
      return {.kind = Kind::kOpaque};
    default:
      // No TLS: the server will say so.
      return {.kind = Kind::kOpaque};
  }
  if (bytes.size() < kTlsRecordHeader) return {};
  left_ = kTlsRecordHeader + (static_cast<size_t>(byte(3)) << 8 | byte(4));
  return Take(bytes);
}

TlsRecords::Piece TlsRecords::TakeHandshake(std::string_view bytes) const {
  if (bytes.size() <= kTlsRecordHeader) return {};
  // Up to TLS 1.2 the handshake goes on in clear, and no hello is part of that.
  if (static_cast<uint8_t>(bytes[kTlsRecordHeader]) != kTlsClientHelloMessage)
    return {.kind = Kind::kOpaque};
  const auto read = ReadClientHello({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  if (read.state == ClientHelloRead::State::kMore) return {};
  if (read.state == ClientHelloRead::State::kRefused) {
    return {.kind = Kind::kRefused, .reason = read.reason};
  }
  if (read.hello.name != first_.name || read.hello.encrypted != first_.encrypted) {
    return {.kind = Kind::kRefused, .reason = "another name in a second TLS client hello"};
  }
  return {.kind = Kind::kOpaque};
}

}  // namespace atl::netpolicy
