#include "runtime/base/nearest.h"

#include <algorithm>

namespace atl {
namespace {

// Returns how many letters of `a` must be changed, inserted, removed or swapped with their
// neighbour to get `b`.
size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> rows(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        rows[i][j] = i + j;
        continue;
      }
      const size_t other = a[i - 1] == b[j - 1] ? 0 : 1;
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + other});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
  }
  return rows[a.size()][b.size()];
}

}  // namespace

std::string Nearest(const std::string& given, const std::vector<std::string>& known) {
  // Longest text that is compared. Nobody types longer words, and the table grows with the square.
  constexpr size_t kLongest = 128;
  if (given.size() > kLongest) return {};
  std::string nearest;
  size_t best = 1 + std::max<size_t>(1, given.size() / 3);
  for (const std::string& name : known) {
    if (name.empty() || name.size() > kLongest || name == given) continue;
    const bool begins = given.size() > 1 && name.starts_with(given);
    const size_t changes = begins ? 1 : EditDistance(given, name);
    if (changes >= best) continue;
    best = changes;
    nearest = name;
  }
  return nearest;
}

}  // namespace atl
