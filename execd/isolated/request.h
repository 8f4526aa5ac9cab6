// What a client asks of an isolated session, checked as far as its text goes. Hostile.
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

// Defaults are filled in: what a client is told as a session's parameters.
struct IsolatedRequest {
  bool strict = true;
  std::vector<IsolatedOverlay> overlays;  // at least one; the first is the workspace
  std::vector<std::string> extra_writable;
  std::vector<IsolatedBind> binds;
  bool share_net = true;
  bool allow_env = false;  // nothing but env_keys; else all but them
  std::vector<std::string> env_keys;
  std::optional<uint32_t> uid, gid;
  bool userns = false;
  int64_t idle_seconds = 0;  // 0: never
  wire::SessionTerms limits;

  // Whether files that are written to the workspace outlive the run.
  bool HasDurableWorkspace() const;
};

// kInvalidArgument; kNotFound: no such profile.
Result<IsolatedRequest> ParseIsolatedRequest(std::string body);
// ,"profile":… : members of an object.
void AppendIsolatedParameters(std::string* out, const IsolatedRequest& request);

// What a session is given of the environment ("NAME=value") of the sandbox's commands.
std::vector<std::string> IsolatedEnvironment(const IsolatedRequest& request,
                                             const std::vector<std::string>& entries);

struct IsolatedRun {
  std::string code;
  std::vector<std::pair<std::string, std::string>> envs;  // names as a shell takes them
  int64_t timeout_seconds = 0;                            // 0: none
  bool background = false;
};
Result<IsolatedRun> ParseIsolatedRun(std::string body);

}  // namespace atl::execd
