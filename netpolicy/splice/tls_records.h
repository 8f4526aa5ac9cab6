// The records that a TLS client sends in clear after its first hello. A server may ask for another
// hello (HelloRetryRequest, RFC 8446 section 4.1.4), and may take the name of that one: it has to
// be the name that was judged. The server's answers are not looked at, so a second hello may come
// until the client has sent what no server takes before one.
//
// TLS stacks differ in what they skip on the way to a second hello: empty records, alerts, changes
// of the cipher, application data that was sent early, and each of these in the middle of a hello.
// All of that passes here, and a hello is put together from its records whatever lies between them.
// The record that makes it whole passes if the name is the first one's. Everything that only
// another hello could hide behind is refused.
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
    kMore,     // what is there ends within something that has to be seen whole
    kPass,     // `size` bytes may pass
    kOpaque,   // everything from here on may: no hello can follow
    kRefused,  // see `reason`; nothing more can be read
  };
  struct Piece {
    Kind kind = Kind::kMore;
    size_t size = 0;
    const char* reason = nullptr;
  };

  void Begin(ClientHello first) { first_ = std::move(first); }

  // The next piece of `bytes`, which begin where the last one ended. After kMore the same bytes
  // are to be offered again, and more; never more than kMaxClientHello of them are needed.
  Piece Take(std::string_view bytes);

  // How many bytes from here may pass, whoever carries them; Skip takes note of those that did not
  // come through Take.
  uint64_t body_left() const { return left_; }
  void Skip(uint64_t bytes) { left_ -= bytes; }

 private:
  Piece TakeHandshake(std::string_view bytes, size_t size);
  const char* JudgeHello();

  ClientHello first_;
  uint64_t left_ = 0;             // of a record
  std::vector<uint8_t> message_;  // of a later hello, as far as its records have passed
  bool cipher_changed_ = false;   // the handshake records that follow may be encrypted
  size_t data_ = 0;               // bytes of application data
};

}  // namespace atl::netpolicy
