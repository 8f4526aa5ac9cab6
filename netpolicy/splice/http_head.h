// The server that the head of an HTTP/1 request means, and what else decides whether it may pass.
// The grammar is runtime/http/head.h; more is refused here, where two servers could be meant.
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
  // The server that is meant: a name as NormalHostName has it, or the bytes of an address. Both
  // are empty if the request names none.
  std::string name;
  std::string address;
  uint16_t port = 0;  // 0: not given
  http::Framing body;
  // It asks for another protocol, whose bytes are none of ours.
  bool upgrade = false;
  // It offers a protocol with requests of its own, which nobody would judge (HTTP/2, TLS): it may
  // pass only as WithoutUpgrade. Some clients offer that with every first request.
  bool strip_upgrade = false;
};

// A head from its first line to the empty one. nullptr, or why it is refused.
const char* ReadHttpHead(std::string_view text, HttpHead& head);

// A head that ReadHttpHead took, without the fields that offer another protocol. They are between
// the client and us (RFC 9110 section 7.8), a server that does not see them answers in HTTP/1.1.
std::string WithoutUpgrade(std::string_view text);

}  // namespace atl::netpolicy
