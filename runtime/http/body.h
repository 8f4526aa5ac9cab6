// Takes the framing off a body that arrives piecemeal.
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

  // The bytes in front that are of one kind.
  struct Run {
    size_t size = 0;
    bool body = false;  // else what frames it
  };
  // Takes the next run off `bytes`, which is not empty; the body is not done. Malformed chunks are
  // kInvalidArgument, also a trailer that says what only a head may say. An error is final: the
  // body is never done then.
  Result<Run> Next(std::string_view bytes);
  // How many bytes from here are body as they stand, whoever carries them (0 within framing, and if
  // the connection's end is the body's); Skip takes note of those that did not come through Next.
  uint64_t body_left() const {
    return state_ == State::kLength || state_ == State::kChunkData ? remaining_ : 0;
  }
  void Skip(uint64_t bytes);

  struct Decoded {
    size_t consumed = 0;  // of the input
    size_t size = 0;      // body bytes, moved to the start of the input
  };
  // Decodes in place: the body bytes of all chunks in `data` are moved together at its start. Stops
  // at the end of the body; otherwise consumes everything. Errors are Next's.
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
    kTrailerName,
    kTrailerValue,
    kTrailerLf,
    kLastLf,
    kBad,
  };
  // One byte of framing; false if it is malformed.
  bool StepFraming(char c);
  bool StepChunkSize(char c);
  bool StepTrailer(char c);

  State state_ = State::kDone;
  uint64_t remaining_ = 0;    // of the length, or of the chunk
  size_t size_digits_ = 0;    // of the present chunk size
  size_t framing_bytes_ = 0;  // of the present chunk's extension, or of all trailers
  std::string trailer_name_;
};

}  // namespace atl::http
