// Lines of comma-separated values (RFC 4180).
#pragma once

#include <string>
#include <vector>

namespace atl::cli {

// Returns the line without its end. A cell that a spreadsheet would run as a formula begins with an
// apostrophe, because labels and names are strangers' texts.
std::string CsvLine(const std::vector<std::string>& cells);

}  // namespace atl::cli
