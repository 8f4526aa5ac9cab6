#include "tools/atoll/words/text.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "runtime/base/utf8.h"

namespace atl::cli {

namespace {

// Returns true for characters that control a terminal: control characters including U+0080 to
// U+009F, line separators, and marks that make a terminal reorder the text that follows (Unicode's
// Bidi_Control).
bool DrivesTerminal(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c || code == 0x200e ||
         code == 0x200f || (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto [code, length] = FirstUtf8(text);
    // An invalid byte could be a control character of an 8-bit terminal.
    const bool shown = length > 0 && !DrivesTerminal(code);
    out.append(shown ? text.substr(0, length) : "?");
    text.remove_prefix(length > 0 ? length : 1);
  }
  return out;
}

std::string ShellQuote(std::string_view word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-._/:,@%+").find(c) != std::string_view::npos;
  });
  if (plain) return std::string(word);
  // Only the single quote itself is special within single quotes.
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

bool Coloured(int fd) {
  const char* const refused = std::getenv("NO_COLOR");
  return isatty(fd) == 1 && (refused == nullptr || *refused == '\0');
}

std::string HumanSize(uint64_t bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  uint64_t tenths = bytes * 10;
  while (tenths >= 10240 && unit + 1 < kUnits.size()) {
    tenths /= 1024;
    ++unit;
  }
  std::string text = std::to_string(tenths / 10);
  if (unit > 0) text += "." + std::to_string(tenths % 10);
  return text + " " + kUnits[unit];
}

Table::Table(std::vector<std::string> heading) {
  rows_.push_back(std::move(heading));
}

void Table::AddRow(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = Printable(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::Text() const {
  std::vector<size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      out += row[i];
      if (i + 1 < row.size()) out.append(widths[i] - row[i].size() + 2, ' ');
    }
    out += '\n';
  }
  return out;
}

}  // namespace atl::cli
