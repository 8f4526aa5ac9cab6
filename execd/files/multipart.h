// A streaming parser of multipart/form-data. Emits part heads and pieces of content as they arrive,
// and buffers only bytes that may be the start of a boundary. Fuzzed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::execd {

// Returns the boundary of a Content-Type value. kInvalidArgument: it is another type, or has no
// boundary.
Result<std::string> MultipartBoundary(std::string_view content_type);

class MultipartParser {
 public:
  static constexpr size_t kMaxPartHead = 16 << 10;

  class Sink {
   public:
    virtual ~Sink() = default;
    // `has_filename` distinguishes a file part from a plain value.
    virtual Status OnPart(std::string_view name, bool has_filename) = 0;
    virtual Status OnData(std::string_view bytes) = 0;
    virtual Status OnPartEnd() = 0;
  };

  MultipartParser(std::string boundary, Sink* sink);
  // Parses the next bytes. Returns a grammar error (kInvalidArgument) or the sink's error; do not
  // call again after an error.
  Status Feed(std::string_view bytes);
  // True once the closing boundary has been seen.
  bool complete() const { return state_ == State::kEnd; }

 private:
  enum class State { kPreamble, kAfterBoundary, kHead, kData, kEnd };
  Status Step(bool* progress);
  Status ParseHead(std::string_view head);
  size_t MayBeDelimiter(std::string_view bytes) const;

  std::string delimiter_;  // "\r\n--boundary"
  Sink& sink_;
  State state_ = State::kPreamble;
  std::string buffer_;
};

}  // namespace atl::execd
