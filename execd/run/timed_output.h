// The last bytes of two streams that are shown together, with when and from which stream they came,
// and notes between them.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "execd/run/output_ring.h"

namespace atl::execd {

enum class OutputStream : uint8_t { kStdout = 1, kStderr = 2, kNote = 4 };

// Offsets count the bytes of all. Thread rule: a plain object.
class TimedOutput {
 public:
  explicit TimedOutput(size_t limit) : bytes_(limit) {}

  void Append(OutputStream stream, int64_t time_us, std::string_view bytes);
  // How much there was ever, and the first offset that is still there.
  uint64_t end() const { return bytes_.end(); }
  uint64_t begin() const;

  struct Piece {
    OutputStream stream = OutputStream::kStdout;
    int64_t time_us = 0;
    std::string bytes;
  };
  // What follows `offset` (from begin() to below end()) of one stream and one moment, at most
  // `limit` bytes and at least one.
  Piece Read(uint64_t offset, size_t limit) const;
  // All output that is there, without regard to streams.
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
