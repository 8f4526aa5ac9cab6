// Parses and checks a client's requests for an isolated session. The input is hostile.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "execd/http/json.h"
#include "runtime/base/result.h"
#include "runtime/wire/session.h"

namespace atl::execd {

struct IsolatedOverlay {
  enum class Mode : uint8_t { kRw, kOverlay, kRo };
  std::string path;
  Mode mode = Mode::kOverlay;
  bool persist = true;
};

struct IsolatedBind {
  std::string source;
  std::string dest;
  bool readonly = false;
};

// The parameters of a session, with defaults filled in. Clients get them in this form.
struct IsolatedRequest {
  bool strict = true;
  std::vector<IsolatedOverlay> overlays;  // never empty; the first is the workspace
  std::vector<std::string> extra_writable;
  std::vector<IsolatedBind> binds;
  bool share_net = true;
  bool allow_env = false;  // true: only env_keys are passed; false: all others
  std::vector<std::string> env_keys;
  std::optional<uint32_t> uid, gid;
  bool userns = false;
  int64_t idle_seconds = 0;  // 0: never
  wire::SessionTerms limits;

  // Returns true if files written to the workspace are kept after the run.
  bool HasDurableWorkspace() const;
};

// kInvalidArgument: malformed. kNotFound: the profile does not exist.
Result<IsolatedRequest> ParseIsolatedRequest(std::string body);
// Appends members of a JSON object, beginning with a comma: ,"profile":….
void AppendIsolatedParameters(std::string* out, const IsolatedRequest& request);

// Returns the part of the environment of the sandbox's commands ("NAME=value") that a session gets.
std::vector<std::string> IsolatedEnvironment(const IsolatedRequest& request,
                                             const std::vector<std::string>& entries);

struct IsolatedRun {
  std::string code;
  std::vector<std::pair<std::string, std::string>> envs;  // names that are valid in a shell
  int64_t timeout_seconds = 0;                            // 0: none
  bool background = false;
};
Result<IsolatedRun> ParseIsolatedRun(std::string body);

}  // namespace atl::execd
