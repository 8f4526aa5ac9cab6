// Runs code in a code context: the verb 'code', and 'run' with --code.
#pragma once

#include <string>

#include "runtime/base/result.h"
#include "tools/atoll/client/create_body.h"
#include "tools/atoll/client/settings.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {

struct CodeOptions {
  RunOptions run;    // the sandbox; default image: code-interpreter
  std::string code;  // empty: read stdin
  std::string plots = ".";
  std::string language;  // empty: Python
};

// Runs the code in a new sandbox and deletes the sandbox afterwards. Returns an exit code: kFailed
// if the code failed.
Result<int> RunCode(const Settings& settings, CodeOptions options);

void AddCodeVerb(Verb& root, const Settings& settings);

}  // namespace atl::cli
