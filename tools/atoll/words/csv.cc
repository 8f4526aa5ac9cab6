#include "tools/atoll/words/csv.h"

#include <string_view>

namespace atl::cli {
namespace {

std::string CsvCell(std::string text) {
  if (!text.empty() && std::string_view("=+-@\t\r").find(text.front()) != std::string_view::npos) {
    text.insert(0, "'");
  }
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted("\"");
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

}  // namespace

std::string CsvLine(const std::vector<std::string>& cells) {
  std::string line;
  bool first = true;
  for (const std::string& cell : cells) {
    line.append(first ? "" : ",").append(CsvCell(cell));
    first = false;
  }
  return line;
}

}  // namespace atl::cli
