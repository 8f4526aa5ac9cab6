// Takes the framing off a body that arrives piecemeal.
//
// Thread rule: a plain object. Input is hostile: sizes, extensions and trailers are bounded.
#pragma once

#include <cstdint>

#include "runtime/base/result.h"
#include "runtime/http/head.h"

namespace atl::http {

class BodyDecoder {
 public:
  BodyDecoder() = default;
  explicit BodyDecoder(const Framing& framing);

  struct Decoded {
    size_t consumed = 0;  // of the input
    size_t size = 0;      // body bytes, moved to the start of the input
  };
  // Decodes in place: the body bytes of all chunks in `data` are moved together at its start. Stops
  // at the end of the body; otherwise consumes everything. Malformed chunks are kInvalidArgument.
  Result<Decoded> Decode(char* data, size_t size);

  bool done() const { return state_ == State::kDone; }
  // The connection has ended. False: the body is cut off.
  bool AcceptsClose() const { return done() || state_ == State::kUntilClose; }
  // Bytes still to come of a body whose length is known; 0 otherwise.
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
    kTrailer,
    kTrailerLf,
    kLastLf,
  };
  // One byte of framing; false if it is malformed.
  bool StepFraming(char c);
  bool StepChunkSize(char c);
  bool StepTrailer(char c);

  State state_ = State::kDone;
  uint64_t remaining_ = 0;    // of the length, or of the chunk
  size_t size_digits_ = 0;    // of the present chunk size
  size_t framing_bytes_ = 0;  // of the present chunk's extension, or of all trailers
};

}  // namespace atl::http
