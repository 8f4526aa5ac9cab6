// Where one HTTP/1 request ends and the next begins, in what a client sends on a connection that is
// kept alive: each head is seen, no byte of a body is taken for one, and the other way round. What
// it lets through, whoever reads with runtime/http cuts at the same places.
//
// Thread rule: values.
#pragma once

#include <cstdint>
#include <string_view>

#include "netpolicy/splice/http_head.h"
#include "runtime/http/body.h"

namespace atl::netpolicy {

class HttpRequests {
 public:
  enum class Kind : uint8_t {
    kMore,     // what is there ends within a head, which has to be seen whole
    kHead,     // `size` bytes are a head; see head()
    kBody,     // `size` bytes of a body, or of what frames it
    kRefused,  // see `reason`; nothing more can be read
  };
  struct Piece {
    Kind kind = Kind::kMore;
    size_t size = 0;
    const char* reason = nullptr;
  };

  // The next piece of `bytes`, which begin where the last one ended. After kMore the same bytes
  // are to be offered again, and more; never more than kMaxHttpHead of them are needed.
  Piece Take(std::string_view bytes);

  // Of the last kHead.
  const HttpHead& head() const { return head_; }

  // How many bytes from here are a body as they stand, whoever carries them; Skip takes note of
  // those that did not come through Take.
  uint64_t body_left() const { return body_.body_left(); }
  void Skip(uint64_t bytes) { body_.Skip(bytes); }

 private:
  Piece TakeHead(std::string_view bytes);
  Piece Refuse(const char* reason);

  bool refused_ = false;
  HttpHead head_;
  http::HeadScanner scanner_;
  http::BodyDecoder body_;  // done: a head is next
};

// Looks for the status line that answers a request to change the protocol.
class UpgradeAnswer {
 public:
  enum class State : uint8_t { kMore, kSwitched, kRefused, kBroken };
  // The next bytes from the server. Interim answers (1xx) are passed over.
  State Feed(std::string_view bytes);

 private:
  State OnLine(std::string_view line);

  bool in_fields_ = false;  // of an interim answer
  size_t bytes_ = 0;
  std::string line_;
};

}  // namespace atl::netpolicy
