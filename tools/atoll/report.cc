#include "tools/atoll/report.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/atoll/json_text.h"
#include "tools/atoll/text.h"

namespace atl::cli {

void Report(const Settings& settings, const Error& error) {
  const std::string text = Printable(error.message());
  if (settings.json) {
    std::fprintf(stderr, "%s\n", JsonText({{"error", text}}).c_str());
  } else {
    std::fprintf(stderr, "atoll: %s\n", text.c_str());
  }
}

}  // namespace atl::cli
