// Lists sandboxes, and resolves the names that people type.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/client/settings.h"

namespace atl::cli {

// Help texts of an argument ID.
inline constexpr char kOneSandbox[] = "Sandbox: its id, the start of it, or its name";
inline constexpr char kSandboxes[] = "Sandboxes: ids, starts of ids, or names";
inline constexpr char kOnlySandboxes[] = "Only these: ids, starts of ids, or names";

struct SandboxEntry {
  std::string id, name, image, state, created, expires, command;
  std::string isolation;
  std::string tenant;  // its owner; empty: the host
  std::string exit;    // exit code; empty: not ended; "-": ended without one
  std::string reason;  // the server's word for why it is in its state
  std::string gone;    // when it went; empty: it is there
  std::string cost;    // amount and currency; empty: the server has no prices, or it is there
  std::map<std::string, std::string> labels;
  std::string json;  // the server's JSON, unchanged

  bool HasEnded() const { return state == "Terminated" || state == "Failed"; }
  // `wanted` is KEY or KEY=VALUE.
  bool HasLabel(const std::string& wanted) const;
  std::string LabelText() const;  // "a=1,b=2"
};

// Returns true if `asked` means `state`, in Atoll's word or docker's ("running", "exited", …).
bool StatusMatches(const std::string& state, const std::string& asked);

// Fetches all pages; of one tenant's sandboxes if the settings name a tenant. `query` is "" or
// begins with "&".
Result<std::vector<SandboxEntry>> FetchSandboxes(Api& api, const std::string& query);

// Fetches the sandboxes that are gone from the history, latest first.
Result<std::vector<SandboxEntry>> FetchGone(Api& api);

// Resolves an id, a name, or an unambiguous start of an id; a name goes before the start of an id.
// A name means the only sandbox of that name that has not ended, else the newest that has.
Result<std::string> ResolveId(Api& api, const std::string& given);

// Like ResolveId, and finds a sandbox that is gone if there is no other: the latest of that name.
// The sandbox of an id may be there, or gone, or unknown.
Result<std::string> ResolveIdOrGone(Api& api, const std::string& given);

// Calls `act` for each sandbox. A failure is reported and does not stop the others. Returns the
// last error.
Status ForEachSandbox(const Settings& settings, Api& api, const std::vector<std::string>& given,
                      const std::function<Status(const std::string& id)>& act);

// The route through the server to a sandbox's execd, with execd's token.
struct ExecdWay {
  std::string base;  // prefix of execd's paths
  http::Headers headers;
};
Result<ExecdWay> FindExecd(Api& api, const std::string& sandbox_id);
// Sends a request to execd: a GET, or a POST if `json_body` is not empty.
Result<http::Response> AskExecd(Api& api, const std::string& sandbox_id, const std::string& path,
                                const std::string& json_body = "");

}  // namespace atl::cli
