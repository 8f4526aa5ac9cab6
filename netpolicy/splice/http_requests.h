// Splits what a client sends on a kept-alive HTTP/1 connection into heads and bodies. Every head is
// seen; no byte of a body is taken for a head, or the reverse. A server that parses with
// runtime/http splits at the same places.
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
    kMore,     // the bytes end within a head, which has to be complete
    kHead,     // `size` bytes are a head; see head()
    kBody,     // `size` bytes of a body or its framing
    kRefused,  // see `reason`; nothing more can be parsed
  };
  struct Piece {
    Kind kind = Kind::kMore;
    size_t size = 0;
    const char* reason = nullptr;
  };

  // Returns the next piece of `bytes`, which begin where the last piece ended. After kMore, call
  // again with the same bytes and more. Never needs more than kMaxHttpHead bytes.
  Piece Take(std::string_view bytes);

  // The head of the last kHead.
  const HttpHead& head() const { return head_; }

  // Number of bytes from here on that are plain body and may be moved without Take. Skip counts
  // those that were.
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

// Finds the status line that answers a request to change the protocol.
class UpgradeAnswer {
 public:
  enum class State : uint8_t { kMore, kSwitched, kRefused, kBroken };
  // Takes the next bytes from the server. Interim answers (1xx) are skipped.
  State Feed(std::string_view bytes);

 private:
  State OnLine(std::string_view line);

  bool in_fields_ = false;  // true within the fields of an interim answer
  size_t bytes_ = 0;
  std::string line_;
};

}  // namespace atl::netpolicy
