// Reads what execd says of a run in a code context: JSON objects, one a line. Output is asked for
// as base64 (?encoding=base64), so that it arrives byte for byte.
//
// The stream comes out of a sandbox: lines have a limit, and what is not understood is skipped.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::cli {

class CodeStream {
 public:
  struct Callbacks {
    // What the code prints, results as text, and tracebacks. False stops the stream.
    std::function<bool(std::string_view bytes, bool is_error)> on_text;
    // A picture: "png", "jpeg" or "svg", and the content of such a file.
    std::function<bool(std::string_view kind, std::string_view content)> on_picture;
  };
  explicit CodeStream(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}

  // False when no more is wanted: the run has ended, or a callback has stopped it.
  bool Feed(std::string_view bytes);
  // The code has raised something, or its kernel has died.
  bool failed() const { return failed_; }
  bool ended() const { return ended_; }

 private:
  bool TakeLine(std::string_view line);

  Callbacks callbacks_;
  std::string pending_;
  bool failed_ = false, ended_ = false;
};

// Without the sequences that colour it: for whoever is no terminal.
std::string WithoutColours(std::string_view text);

// Whether what was typed waits for more lines, which end with an empty one: its last line opens
// something, in whatever language.
bool WaitsForMore(std::string_view cell);

}  // namespace atl::cli
