// The head of an HTTP/1 request (RFC 9112), read strictly: two readers of the same bytes, we and
// the server, must not come to two hosts or two ends of the body. What leaves room for that is
// refused.
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace atl::netpolicy {

inline constexpr size_t kMaxHttpHead = 16 * 1024;

struct HttpHead {
  enum class Body : uint8_t { kNone, kLength, kChunked };

  // The server that is meant: a name as NormalHostName has it, or the bytes of an address. Both
  // are empty if the request names none.
  std::string name;
  std::string address;
  uint16_t port = 0;  // 0: not given
  Body body = Body::kNone;
  uint64_t length = 0;  // of kLength
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

// A line "name: value" without its end, as in heads and trailers; nullptr, or why it is refused.
// `value` without the white space around it.
const char* ReadHttpField(std::string_view line, std::string_view& name, std::string_view& value);

bool EqualIgnoringCase(std::string_view a, std::string_view b);

}  // namespace atl::netpolicy
