// Text for people and for shells.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace atl::cli {

// Returns `text` with '?' for control characters, for marks that change the direction of writing,
// and for bytes that are not UTF-8. Names and messages come from elsewhere and must not control the
// terminal.
std::string Printable(std::string_view text);

// Quotes `word` for sh; nothing in it is expanded.
std::string ShellQuote(std::string_view word);

// Returns true if `fd` is a terminal and NO_COLOR is not set.
bool Coloured(int fd);

// Formats a size: "1.5 GiB".
std::string HumanSize(uint64_t bytes);

// A table whose columns are as wide as their widest cell. The first row is the heading.
class Table {
 public:
  explicit Table(std::vector<std::string> heading);
  void AddRow(std::vector<std::string> cells);
  std::string Text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace atl::cli
