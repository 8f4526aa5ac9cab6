// A code context at the command line: the verb 'code', and 'run' with --code.
#pragma once

#include <string>

#include "runtime/base/result.h"
#include "tools/atoll/client/create_body.h"
#include "tools/atoll/client/settings.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {

struct CodeOptions {
  RunOptions run;    // of the sandbox; without an image it is of code-interpreter
  std::string code;  // empty: what is typed or piped in
  std::string plots = ".";
  std::string language;  // empty: Python
};

// In a sandbox of its own, which is gone behind it. An exit code: kFailed if `code` has failed.
Result<int> RunCode(const Settings& settings, CodeOptions options);

void AddCodeVerb(Verb& root, const Settings& settings);

}  // namespace atl::cli
