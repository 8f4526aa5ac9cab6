#include "tools/atoll/words/screen_text.h"

#include <algorithm>

#include "runtime/base/utf8.h"

namespace atl::cli {
namespace {

constexpr unsigned char kEscape = 0x1b, kBell = 0x07, kDelete = 0x7f;
constexpr size_t kMaxSequence = 64;
constexpr size_t kMaxCharacter = 4;
// Larger numbers fit no screen, and make some terminals repeat a character for minutes.
constexpr size_t kMaxDigits = 4;

// Returns true for a control sequence (ECMA-48) that changes nothing but the screen.
bool IsHarmless(std::string_view sequence) {
  const char last = sequence.back();
  const std::string_view parameters = sequence.substr(0, sequence.size() - 1);
  if (parameters.starts_with('?')) {
    // Cursor, wrapping, the second screen. Not: modes of keyboard, mouse and paste.
    constexpr std::string_view kModes[] = {"?1", "?7", "?25", "?47", "?1047", "?1048", "?1049"};
    return (last == 'h' || last == 'l') &&
           std::find(std::begin(kModes), std::end(kModes), parameters) != std::end(kModes);
  }
  if (parameters.find_first_not_of("0123456789;:") != std::string_view::npos) return false;
  size_t digits = 0;
  for (const char c : parameters) {
    digits = c >= '0' && c <= '9' ? digits + 1 : 0;
    if (digits > kMaxDigits) return false;
  }
  // Several numbers make it track the mouse.
  if (last == 'T' && parameters.find(';') != std::string_view::npos) return false;
  constexpr std::string_view kFinals = "ABCDEFGHIJKLMPSTXZ@`abdefmrsu";
  return kFinals.find(last) != std::string_view::npos;
}

}  // namespace

std::string ScreenText::Pass(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) Take(static_cast<unsigned char>(byte), &out);
  return out;
}

void ScreenText::Take(unsigned char byte, std::string* out) {
  // These end a sequence wherever they come.
  if (byte == 0x18 || byte == 0x1a) {
    state_ = State::kText;
    return;
  }
  switch (state_) {
    case State::kText:
      return TakeText(byte, out);
    case State::kEscape:
      state_ = State::kText;
      if (byte == '[') {
        sequence_.clear();
        state_ = State::kControl;
      } else if (byte == ']' || byte == 'P' || byte == 'X' || byte == '^' || byte == '_') {
        state_ = State::kString;
      } else if (byte == '(' || byte == ')') {
        state_ = State::kCharset;
        sequence_.assign(1, static_cast<char>(byte));
      } else if (byte == kEscape) {
        state_ = State::kEscape;
      } else if (std::string_view("78DEM").find(static_cast<char>(byte)) !=
                 std::string_view::npos) {
        out->append(1, kEscape).append(1, static_cast<char>(byte));
      }
      return;
    case State::kCharset:
      state_ = State::kText;
      // ASCII, or the set with lines.
      if (byte == '0' || byte == 'B') {
        out->append(1, kEscape).append(sequence_).append(1, static_cast<char>(byte));
      }
      return;
    case State::kControl:
      if (byte == kEscape) {
        state_ = State::kEscape;
        return;
      }
      sequence_.push_back(static_cast<char>(byte));
      if (byte >= 0x40 && byte <= 0x7e) {
        state_ = State::kText;
        if (IsHarmless(sequence_)) out->append(1, kEscape).append("[").append(sequence_);
      } else if (byte < 0x20 || byte > 0x7e || sequence_.size() > kMaxSequence) {
        state_ = State::kText;
      }
      return;
    case State::kString:
      if (byte == kBell) state_ = State::kText;
      if (byte == kEscape) state_ = State::kStringEscape;
      return;
    case State::kStringEscape:
      // Any other sequence than ST ends the string, too.
      state_ = State::kEscape;
      if (byte == '\\') {
        state_ = State::kText;
        return;
      }
      return Take(byte, out);
  }
}

void ScreenText::TakeText(unsigned char byte, std::string* out) {
  if (byte < 0x80) character_.clear();
  if (byte == kEscape) {
    state_ = State::kEscape;
  } else if (byte >= 0x80) {
    if (byte >= 0xC0) character_.clear();
    character_.push_back(static_cast<char>(byte));
    const Utf8Character first = FirstUtf8(character_);
    if (first.length == character_.size()) {
      // The control characters of ISO 6429 among them begin sequences as ESC does.
      if (first.code >= 0xA0) out->append(character_);
      character_.clear();
    } else if (character_.size() >= kMaxCharacter) {
      character_.clear();
    }
  } else if (byte >= 0x20
                 ? byte != kDelete
                 : std::string_view("\b\t\n\v\f\r\x0e\x0f").find(static_cast<char>(byte)) !=
                       std::string_view::npos) {
    out->push_back(static_cast<char>(byte));
  }
}

std::string_view ScreenText::Reset() {
  // The first screen, the whole of it for scrolling without moving the cursor, ASCII, no colours, a
  // cursor that shows, wrapping.
  return "\x1b[?1049l\x1b"
         "7\x1b[r\x1b"
         "8\x1b(B\x1b)B\x0f\x1b[0m\x1b[?25h\x1b[?7h\x1b[?1l";
}

}  // namespace atl::cli
