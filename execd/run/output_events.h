// Converts a command's output to events of the event stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::execd {

// Form of output in events.
enum class OutputForm : uint8_t {
  // "text" with one line and its terminator (\n, \r or \r\n). The concatenation of all texts is the
  // output. Bytes that are not UTF-8 become U+FFFD, because JSON cannot carry them.
  kText,
  // "text" without terminator; empty lines are omitted. Clients of sessions expect this form.
  kLines,
  // "base64" with the unchanged bytes.
  kBytes,
};
// Parses the query parameter "encoding": "base64", or `text` if it is absent (null).
// kInvalidArgument for any other value.
Result<OutputForm> ParseOutputForm(const std::string* encoding, OutputForm text);

// Appends `text` at once, without splitting it into lines: as one event, or as several if it would
// exceed OutputEvents::kMaxEvent.
void AppendOutput(std::string* out, std::string_view type, std::string_view text, OutputForm form,
                  int64_t unix_ms);

// One stream of a command. An event holds a whole line, however slowly it arrives. A line whose
// JSON would exceed kMaxEvent is cut between two characters, and nothing is added at the cut.
// Clients may not notice the cut (Python's inserts a newline there). So kMaxEvent is as large as
// all clients accept: Go's reads lines of at most 4 MiB.
//
// Incomplete lines are stored once, in encoded form. All streams together store up to kMaxHeld.
// Beyond that, lines are cut after kMinEvent until there is room.
//
// Thread rule: one thread for all objects.
class OutputEvents {
 public:
  static constexpr size_t kMaxEvent = (4 << 20) - 1024;
  static constexpr size_t kMinEvent = 64 << 10;
  static constexpr size_t kMaxHeld = 8 << 20;

  // `type` is the type of the events, "stdout" or "stderr". Borrowed; it must outlive the object.
  OutputEvents(std::string_view type, OutputForm form) : type_(type), form_(form) {}
  OutputEvents(const OutputEvents&) = delete;
  OutputEvents& operator=(const OutputEvents&) = delete;
  ~OutputEvents() { Hold(0); }

  // Appends the events that `bytes` complete to `out`.
  void Append(std::string_view bytes, int64_t unix_ms, std::string* out);
  // Appends the unterminated rest, if there is one, and then `warning` as a line of execd, unless
  // it is empty.
  void End(int64_t unix_ms, std::string* out, std::string_view warning = {});
  // Discards an incomplete line, because no client is left.
  void Discard();

  // Bytes that all streams hold together, for tests.
  static size_t held() { return g_held; }

 private:
  void AppendText(std::string_view bytes, int64_t unix_ms, std::string* out);
  void AppendPiece(std::string_view piece, int64_t unix_ms, std::string* out);
  void Finish(int64_t unix_ms, std::string* out);
  void Hold(size_t size);

  static size_t g_held;
  const std::string_view type_;
  const OutputForm form_;
  std::string event_;      // incomplete event: its head and the text so far, as JSON
  std::string character_;  // the beginning of a UTF-8 sequence, at most 3 bytes
  size_t held_ = 0;        // this stream's share of g_held
  bool ended_with_return_ = false;
};

}  // namespace atl::execd
