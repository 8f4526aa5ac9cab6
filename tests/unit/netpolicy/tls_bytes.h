// Builds ClientHello messages for tests, byte by byte.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace atl::testing {

inline std::string TlsNumber(size_t value, size_t bytes) {
  std::string text;
  for (size_t i = bytes; i-- > 0;) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

// Prefixes `text` with its length, encoded in `bytes` bytes.
inline std::string TlsSized(const std::string& text, size_t bytes) {
  return TlsNumber(text.size(), bytes) + text;
}

inline std::string TlsExtension(size_t type, const std::string& data) {
  return TlsNumber(type, 2) + TlsSized(data, 2);
}

inline std::string TlsHostEntry(const std::string& name) {
  return TlsNumber(0, 1) + TlsSized(name, 2);
}

// Returns the server_name extension with these entries.
inline std::string TlsServerName(const std::string& entries) {
  return TlsExtension(0, TlsSized(entries, 2));
}

inline std::string TlsBody(const std::string& extensions) {
  return TlsNumber(0x0303, 2) + std::string(32, 'r') + TlsSized(std::string(32, 's'), 1) +
         TlsSized(TlsNumber(0x1301, 2) + TlsNumber(0xc02f, 2), 2) + TlsSized(TlsNumber(0, 1), 1) +
         TlsSized(extensions, 2);
}

inline std::string TlsMessage(const std::string& body) {
  return TlsNumber(1, 1) + TlsSized(body, 3);
}

inline std::string TlsRecord(const std::string& content, size_t type = 22,
                             size_t version = 0x0301) {
  return TlsNumber(type, 1) + TlsNumber(version, 2) + TlsSized(content, 2);
}

// Returns a whole ClientHello as clients send it, with supported_versions beside the name.
inline std::string TlsHello(const std::string& name, const std::string& more = "") {
  return TlsRecord(TlsMessage(TlsBody(TlsExtension(43, TlsNumber(0x020304, 3)) +
                                      TlsServerName(TlsHostEntry(name)) + more)));
}

// Returns the message that a TLS 1.2 client sends after its hello. No hello can follow it, so the
// proxy stops reading there.
inline std::string TlsKeyExchange() {
  return TlsRecord(TlsNumber(16, 1) + TlsSized("key", 3), 22, 0x0303);
}

}  // namespace atl::testing
