// How an error reaches people and scripts.
#pragma once

#include "runtime/base/result.h"
#include "tools/atoll/settings.h"

namespace atl::cli {

// "atoll: message" on stderr; {"error": message} with --json. From any thread.
void Report(const Settings& settings, const Error& error);

}  // namespace atl::cli
