// Sandboxes as the server lists them, and how people name one.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/client/settings.h"

namespace atl::cli {

// What an argument ID is, for help.
inline constexpr char kOneSandbox[] = "Sandbox: its id, the start of it, or its name";
inline constexpr char kSandboxes[] = "Sandboxes: ids, starts of ids, or names";
inline constexpr char kOnlySandboxes[] = "Only these: ids, starts of ids, or names";

struct SandboxEntry {
  std::string id, name, image, state, created, expires, command;
  std::string exit;  // the code; empty: it has not ended
  std::map<std::string, std::string> labels;
  std::string json;  // as it came

  bool HasEnded() const { return state == "Terminated" || state == "Failed"; }
  // KEY or KEY=VALUE.
  bool HasLabel(const std::string& wanted) const;
  std::string LabelText() const;  // "a=1,b=2"
};

// Whether `asked` means `state`: by our word, or docker's ("running", "exited", …).
bool StatusMatches(const std::string& state, const std::string& asked);

// All pages. `query` is "" or begins with "&".
Result<std::vector<SandboxEntry>> FetchSandboxes(Api& api, const std::string& query);

// An id, the start of exactly one, or the name of exactly one that has not ended; of those that
// have ended, the newest of that name.
Result<std::string> ResolveId(Api& api, const std::string& given);

// Does it for each; one that fails is reported and does not keep the others. The last error.
Status ForEachSandbox(const Settings& settings, Api& api, const std::vector<std::string>& given,
                      const std::function<Status(const std::string& id)>& act);

// The way to a sandbox's execd: through the server, with the token that execd wants.
struct ExecdWay {
  std::string base;  // goes before execd's paths
  http::Headers headers;
};
Result<ExecdWay> FindExecd(Api& api, const std::string& sandbox_id);
// Asks it; with a body, which is JSON, as a POST.
Result<http::Response> AskExecd(Api& api, const std::string& sandbox_id, const std::string& path,
                                const std::string& json_body = "");

}  // namespace atl::cli
