// Sandboxes as the server lists them, and how people name one.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "tools/atoll/api.h"

namespace atl::cli {

struct SandboxEntry {
  std::string id, name, image, state, created, expires;
  std::string json;  // as it came
};

// All pages. `query` is "" or begins with "&".
Result<std::vector<SandboxEntry>> FetchSandboxes(Api& api, const std::string& query);

// An id, the start of exactly one, or the name of exactly one.
Result<std::string> ResolveId(Api& api, const std::string& given);

// The way to a sandbox's execd: through the server, with the token that execd wants.
struct ExecdWay {
  std::string base;  // goes before execd's paths
  http::Headers headers;
};
Result<ExecdWay> FindExecd(Api& api, const std::string& sandbox_id);

}  // namespace atl::cli
