// Where one HTTP/1 request ends and the next begins, in what a client sends on a connection that is
// kept alive: each head is seen, no byte of a body is taken for one, and the other way round.
//
// Thread rule: values.
#pragma once

#include <cstdint>
#include <string_view>

#include "netpolicy/splice/http_head.h"

namespace atl::netpolicy {

class HttpRequests {
 public:
  enum class Kind : uint8_t {
    kMore,     // what is there ends within something that has to be seen whole
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
  uint64_t body_left() const {
    return state_ == State::kData || state_ == State::kChunkData ? left_ : 0;
  }
  void Skip(uint64_t bytes);

 private:
  enum class State : uint8_t { kHead, kData, kChunkSize, kChunkData, kChunkEnd, kTrailers, kBad };

  Piece TakeHead(std::string_view bytes);
  Piece TakeData(std::string_view bytes);
  Piece TakeChunkSize(std::string_view bytes);
  Piece TakeChunkEnd(std::string_view bytes);
  Piece TakeTrailer(std::string_view bytes);
  Piece Refuse(const char* reason);

  State state_ = State::kHead;
  HttpHead head_;
  uint64_t left_ = 0;
  // Of an unfinished head: how far it was looked at, and where its last line begins.
  size_t scanned_ = 0, line_ = 0;
  size_t trailer_bytes_ = 0;
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
