// How an error reaches people and scripts.
#pragma once

#include "runtime/base/result.h"
#include "tools/atoll/client/settings.h"

namespace atl::cli {

// "atoll: ", in red where there are colours: it stands before what went wrong on stderr.
const char* ErrorMark();

// "atoll: message" on stderr; {"error": message} with --json. From any thread.
void Report(const Settings& settings, const Error& error);

}  // namespace atl::cli
