// The last bytes of two streams in the order of their arrival, with time and stream, and notes
// between them.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "execd/run/output_ring.h"

namespace atl::execd {

enum class OutputStream : uint8_t { kStdout = 1, kStderr = 2, kNote = 4 };

// Offsets count the bytes of both streams and of notes. Thread rule: a plain object.
class TimedOutput {
 public:
  explicit TimedOutput(size_t limit) : bytes_(limit) {}

  void Append(OutputStream stream, int64_t time_us, std::string_view bytes);
  // Offsets of the end and of the first byte that is still stored.
  uint64_t end() const { return bytes_.end(); }
  uint64_t begin() const;

  struct Piece {
    OutputStream stream = OutputStream::kStdout;
    int64_t time_us = 0;
    std::string bytes;
  };
  // Returns the bytes from `offset` (at least begin(), below end()) that share one stream and one
  // time: at least one byte, at most `limit`.
  Piece Read(uint64_t offset, size_t limit) const;
  // Returns all stored output, of all streams.
  std::string All() const;

 private:
  struct Mark {
    uint64_t begin;
    int64_t time_us;
    OutputStream stream;
  };
  OutputRing bytes_;
  std::deque<Mark> marks_;
};

}  // namespace atl::execd
