// Removes the framing from a message body that arrives in pieces.
//
// Thread rule: a plain object. Input is hostile: sizes, extensions and trailers are bounded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/http/head.h"

namespace atl::http {

class BodyDecoder {
 public:
  BodyDecoder() = default;
  explicit BodyDecoder(const Framing& framing);

  // Leading bytes of one kind.
  struct Run {
    size_t size = 0;
    bool body = false;  // false: bytes of the framing
  };
  // Takes the next run from `bytes`, which must not be empty. The body must not be done.
  // kInvalidArgument: malformed chunks, or a trailer with a field that only a head may have. An
  // error is final: the body will never be done.
  Result<Run> Next(std::string_view bytes);
  // Returns how many bytes from here on are plain body and may be moved without Next (0 within
  // framing, and if the body ends with the connection). Skip counts those that were.
  uint64_t body_left() const {
    return state_ == State::kLength || state_ == State::kChunkData ? remaining_ : 0;
  }
  void Skip(uint64_t bytes);

  struct Decoded {
    size_t consumed = 0;  // bytes of the input
    size_t size = 0;      // body bytes, moved to the start of the input
  };
  // Decodes in place: moves the body bytes of all chunks in `data` together at its start. Stops at
  // the end of the body; otherwise consumes everything. Errors as in Next.
  Result<Decoded> Decode(char* data, size_t size);

  bool done() const { return state_ == State::kDone; }
  // Call when the connection has ended. Returns false if the body is incomplete.
  bool AcceptsClose() const { return done() || state_ == State::kUntilClose; }
  // Returns the remaining bytes of a body with a known length, otherwise 0.
  uint64_t remaining_length() const { return state_ == State::kLength ? remaining_ : 0; }

 private:
  enum class State {
    kDone,
    kLength,
    kUntilClose,
    kChunkSize,
    kChunkExtension,
    kChunkSizeLf,
    kChunkData,
    kChunkDataCr,
    kChunkDataLf,
    kTrailerStart,
    kTrailerName,
    kTrailerValue,
    kTrailerLf,
    kLastLf,
    kBad,
  };
  // Consumes one byte of framing. Returns false if it is malformed.
  bool StepFraming(char c);
  bool StepChunkSize(char c);
  bool StepTrailer(char c);

  State state_ = State::kDone;
  uint64_t remaining_ = 0;    // bytes left of the body or of the chunk
  size_t size_digits_ = 0;    // digits of the current chunk size
  size_t framing_bytes_ = 0;  // bytes of the current chunk's extension, or of all trailers
  std::string trailer_name_;
};

}  // namespace atl::http
