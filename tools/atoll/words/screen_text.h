// The output of a program that nobody here has started, made safe to show on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace atl::cli {

// Passes text, colours, and what moves the cursor or erases. Leaves out everything by which output
// could act on the terminal beyond the screen, or make it type: titles, the clipboard, links,
// device queries, window operations, keyboard and mouse modes, unknown sequences, and bytes that
// are not UTF-8.
class ScreenText {
 public:
  // Returns the safe part of the next bytes. Sequences may be cut anywhere.
  std::string Pass(std::string_view bytes);
  // Returns what brings a terminal back to its usual state.
  static std::string_view Reset();

 private:
  enum class State { kText, kEscape, kCharset, kControl, kString, kStringEscape };
  void Take(unsigned char byte, std::string* out);
  void TakeText(unsigned char byte, std::string* out);

  State state_ = State::kText;
  std::string sequence_;   // control sequence so far, without ESC [
  std::string character_;  // the bytes of an unfinished character
};

}  // namespace atl::cli
