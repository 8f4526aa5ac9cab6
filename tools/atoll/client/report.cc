#include "tools/atoll/client/report.h"

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "runtime/base/json_text.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {

const char* ErrorMark() {
  return Coloured(STDERR_FILENO) ? "\033[31matoll:\033[0m " : "atoll: ";
}

void Report(const Settings& settings, const Error& error) {
  const std::string text = Printable(error.message());
  if (settings.json) {
    std::fprintf(stderr, "%s\n", JsonText({{"error", text}}).c_str());
  } else {
    std::fprintf(stderr, "%s%s\n", ErrorMark(), text.c_str());
  }
}

}  // namespace atl::cli
