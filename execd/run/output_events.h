// A command's output as events: bytes in, the text of the event stream out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::execd {

// In which form output travels.
enum class OutputForm : uint8_t {
  // "text": a line with its terminator (\n, \r or \r\n): the texts, joined, are the output. What is
  // not UTF-8 becomes U+FFFD: JSON has no other bytes.
  kText,
  // "text" without terminator, and empty lines left out: what clients know of sessions.
  kLines,
  // "base64": any bytes, as they came.
  kBytes,
};
// What the query parameter "encoding" asks for: base64, or `text` without one (null).
// kInvalidArgument for any other.
Result<OutputForm> ParseOutputForm(const std::string* encoding, OutputForm text);

// `text` at once, whatever lines it holds: one event, or several where it would be longer than
// OutputEvents::kMaxEvent.
void AppendOutput(std::string* out, std::string_view type, std::string_view text, OutputForm form,
                  int64_t unix_ms);

// One of a command's streams. An event holds a whole line, however slowly it comes; one that would
// become longer than kMaxEvent, as JSON, is cut between two characters, and nothing is added.
// Clients may not find the cut (Python's puts a newline there), hence as large as all of them take:
// Go's reads lines of at most 4 MiB.
//
// Unfinished lines are held encoded, once. Those of all streams together are held up to kMaxHeld;
// beyond, and until there is room, lines are cut after kMinEvent.
//
// Thread rule: one thread for all objects.
class OutputEvents {
 public:
  static constexpr size_t kMaxEvent = (4 << 20) - 1024;
  static constexpr size_t kMinEvent = 64 << 10;
  static constexpr size_t kMaxHeld = 8 << 20;

  // `type` is the events', "stdout" or "stderr", and outlives this.
  OutputEvents(std::string_view type, OutputForm form) : type_(type), form_(form) {}
  OutputEvents(const OutputEvents&) = delete;
  OutputEvents& operator=(const OutputEvents&) = delete;
  ~OutputEvents() { Hold(0); }

  // Appends the events that `bytes` complete to `out`.
  void Append(std::string_view bytes, int64_t unix_ms, std::string* out);
  // The unterminated rest, if any; then a line of execd's own, `[warning]`, unless it is empty.
  void End(int64_t unix_ms, std::string* out, std::string_view warning = {});
  // Gives up what is held: nobody listens any more.
  void Discard();

  // What all of them hold, for tests.
  static size_t held() { return g_held; }

 private:
  void AppendText(std::string_view bytes, int64_t unix_ms, std::string* out);
  void AppendPiece(std::string_view piece, int64_t unix_ms, std::string* out);
  void Finish(int64_t unix_ms, std::string* out);
  void Hold(size_t size);

  static size_t g_held;
  const std::string_view type_;
  const OutputForm form_;
  std::string event_;      // begun: its head and the text so far, as JSON
  std::string character_;  // the beginning of a UTF-8 sequence, at most 3 bytes
  size_t held_ = 0;        // how much of g_held is ours
  bool ended_with_return_ = false;
};

}  // namespace atl::execd
