// Inspects the records that a TLS client sends in clear after its first hello. A server may ask for
// a second hello (HelloRetryRequest, RFC 8446 section 4.1.4) and may use the name in it, so that
// name must be the one that was judged. The server's answers are not inspected. Therefore a second
// hello is possible until the client has sent something that no server accepts before one.
//
// TLS stacks differ in what they skip before a second hello: empty records, alerts, changes of the
// cipher, early application data, and each of these in the middle of a hello. All of that passes
// here, and a hello is joined from its records whatever lies between them. The record that
// completes it passes only if its name is the first one's. Everything that could only serve to hide
// another hello is refused.
//
// Thread rule: a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "netpolicy/splice/client_hello.h"

namespace atl::netpolicy {

class TlsRecords {
 public:
  enum class Kind : uint8_t {
    kMore,     // the bytes end within something that has to be complete
    kPass,     // `size` bytes may pass
    kOpaque,   // everything from here on may pass: no hello can follow
    kRefused,  // see `reason`; nothing more can be parsed
  };
  struct Piece {
    Kind kind = Kind::kMore;
    size_t size = 0;
    const char* reason = nullptr;
  };

  void Begin(ClientHello first) { first_ = std::move(first); }

  // Returns the next piece of `bytes`, which begin where the last piece ended. After kMore, call
  // again with the same bytes and more. Never needs more than kMaxClientHello bytes.
  Piece Take(std::string_view bytes);

  // Number of bytes from here on that may pass without Take. Skip counts those that did.
  uint64_t body_left() const { return left_; }
  void Skip(uint64_t bytes) { left_ -= bytes; }

 private:
  Piece TakeHandshake(std::string_view bytes, size_t size);
  const char* JudgeHello();

  ClientHello first_;
  uint64_t left_ = 0;             // bytes left of the current record
  std::vector<uint8_t> message_;  // the second hello, as far as its records have passed
  bool cipher_changed_ = false;   // later handshake records may be encrypted
  size_t data_ = 0;               // bytes of application data
};

}  // namespace atl::netpolicy
