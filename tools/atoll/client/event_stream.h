// Reads what execd says of a running command: JSON objects, each followed by an empty line. Output
// is asked for as base64 (?encoding=base64), so that it arrives byte for byte.
//
// The stream comes out of a sandbox: lines have a limit, and what is not understood is skipped.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "tools/atoll/client/exit.h"

namespace atl::cli {

class EventStream {
 public:
  // `is_error` tells stderr from stdout. False stops the stream.
  using OnOutput = std::function<bool(std::string_view bytes, bool is_error)>;
  explicit EventStream(OnOutput on_output) : on_output_(std::move(on_output)) {}

  // False when no more is wanted: the command has ended, or the output cannot be written.
  bool Feed(std::string_view bytes);

  // Of the command, to interrupt it by; empty until it has started.
  const std::string& command_id() const { return command_id_; }
  // Once the command has ended.
  const std::optional<Exit>& exit() const { return exit_; }
  // Why it could not be run at all.
  const std::string& failure() const { return failure_; }

 private:
  bool TakeLine(std::string_view line);
  void TakeError(const std::string& value, const std::string& told);

  OnOutput on_output_;
  std::string pending_;
  std::string command_id_;
  std::optional<Exit> exit_;
  std::string failure_;
};

}  // namespace atl::cli
