// Finds the server that the head of an HTTP/1 request names, and what else decides whether it may
// pass. The grammar is in runtime/http/head.h. This parser refuses more: everything that two
// servers could read differently.
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/http/head.h"

namespace atl::netpolicy {

inline constexpr size_t kMaxHttpHead = 16 * 1024;

struct HttpHead {
  // The server: a name in the form of NormalHostName, or the bytes of an address. Both are empty if
  // the request names none.
  std::string name;
  std::string address;
  uint16_t port = 0;  // 0: not given
  http::Framing body;
  // The request asks for another protocol that carries no requests, such as WebSocket.
  bool upgrade = false;
  // The request offers a protocol with requests of its own (HTTP/2, TLS), which the proxy could not
  // judge. It may pass only as WithoutUpgrade. Some clients offer such a protocol with every first
  // request.
  bool strip_upgrade = false;
};

// Parses a head from its first line to the empty line. Returns nullptr, or why it is refused.
const char* ReadHttpHead(std::string_view text, HttpHead& head);

// Returns a head that ReadHttpHead accepted, without the fields that offer another protocol. These
// fields concern only the next hop (RFC 9110 section 7.8); a server that does not see them answers
// in HTTP/1.1.
std::string WithoutUpgrade(std::string_view text);

}  // namespace atl::netpolicy
