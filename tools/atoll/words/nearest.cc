#include "tools/atoll/words/nearest.h"

#include "tools/atoll/words/text.h"

namespace atl::cli {

std::string OfferNearest(const std::string& given, const std::vector<std::string>& known) {
  const std::string nearest = Nearest(given, known);
  return nearest.empty() ? "" : "; did you mean '" + Printable(nearest) + "'?";
}

}  // namespace atl::cli
