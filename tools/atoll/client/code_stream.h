// Parses execd's events about a run in a code context: JSON objects, one a line. The request asks
// for output as base64 (?encoding=base64), which keeps every byte.
//
// The input is hostile: it comes from a sandbox. The length of a line is limited, and unknown
// events are skipped.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::cli {

class CodeStream {
 public:
  struct Callbacks {
    // Output of the code, results as text, and tracebacks. False stops the stream.
    std::function<bool(std::string_view bytes, bool is_error)> on_text;
    // A picture: its type "png", "jpeg" or "svg", and the content of the file.
    std::function<bool(std::string_view kind, std::string_view content)> on_picture;
  };
  explicit CodeStream(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}

  // Returns false at the end of the run, or if a callback has stopped the stream.
  bool Feed(std::string_view bytes);
  // True: the code raised an exception, or its kernel died.
  bool failed() const { return failed_; }
  bool ended() const { return ended_; }

 private:
  bool TakeLine(std::string_view line);

  Callbacks callbacks_;
  std::string pending_;
  bool failed_ = false, ended_ = false;
};

// Removes colour sequences, for output that is no terminal.
std::string WithoutColours(std::string_view text);

// Returns true if the typed code needs more lines, up to an empty line: its last line opens a
// block, in any of the languages.
bool WaitsForMore(std::string_view cell);

}  // namespace atl::cli
