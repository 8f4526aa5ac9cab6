// Parses execd's events about a running command: JSON objects, each followed by an empty line. The
// request asks for output as base64 (?encoding=base64), which keeps every byte.
//
// The input is hostile: it comes from a sandbox. The length of a line is limited, and unknown
// events are skipped.
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
  // `is_error`: stderr, else stdout. False stops the stream.
  using OnOutput = std::function<bool(std::string_view bytes, bool is_error)>;
  explicit EventStream(OnOutput on_output) : on_output_(std::move(on_output)) {}

  // Returns false at the end of the command, or if the output cannot be written.
  bool Feed(std::string_view bytes);

  // Returns the id of the command, needed to interrupt it; empty until it has started.
  const std::string& command_id() const { return command_id_; }
  // Set once the command has ended.
  const std::optional<Exit>& exit() const { return exit_; }
  // Returns why the command could not start; empty: it could.
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
