// Reports errors to people and scripts.
#pragma once

#include "runtime/base/result.h"
#include "tools/atoll/client/settings.h"

namespace atl::cli {

// Returns the prefix of errors on stderr: "atoll: ", red if stderr shows colours.
const char* ErrorMark();

// Prints "atoll: message" on stderr, or {"error": message} with --json. Any thread may call it.
void Report(const Settings& settings, const Error& error);

}  // namespace atl::cli
