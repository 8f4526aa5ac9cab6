#include "runtime/base/private_paths.h"

#include <algorithm>

namespace atl {
namespace {

constexpr std::string_view kEnds = " \t\r\n'\"`:,;)]>";

// Returns true if the directory's name ends here, or continues with a path below it.
bool EndsHere(std::string_view rest) {
  return rest.empty() || rest.front() == '/' || kEnds.find(rest.front()) != std::string_view::npos;
}

}  // namespace

std::string WithoutPaths(std::string_view text, const std::vector<std::string>& directories) {
  std::string kept;
  while (!text.empty()) {
    const auto found =
        std::find_if(directories.begin(), directories.end(), [&](const std::string& directory) {
          return !directory.empty() && text.starts_with(directory) &&
                 EndsHere(text.substr(directory.size()));
        });
    if (found == directories.end()) {
      kept.push_back(text.front());
      text.remove_prefix(1);
      continue;
    }
    text.remove_prefix(std::min(text.find_first_of(kEnds, found->size()), text.size()));
    kept.append("(a path of the daemon)");
  }
  return kept;
}

}  // namespace atl
