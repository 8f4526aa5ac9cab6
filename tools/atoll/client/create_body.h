// Translates the options of `atoll run`, which use docker's words, to request bodies.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/base/result.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {

struct RunOptions {
  std::string image;
  Words command;
  std::string entrypoint;
  Words env, env_files, labels, volumes, ports;
  std::string name, network, policy, pool, cwd, user;
  std::string pause_memory;                   // keep, reclaim; empty: the operator's default
  std::string isolation;                      // a tier; empty: the operator's default
  std::string idle;                           // DURATION[:pause|end]; empty: the operator's default
  std::map<std::string, std::string> limits;  // names as in resourceLimits; empty: defaults
  // A day, so that a forgotten sandbox ends by itself.
  int timeout_seconds = 86400;
  bool interactive = false, terminal = false, detach = false, keep = false, remove = false;
  bool readonly = false;
  bool secure = false;                           // its ports require a token or a signed link
  bool snapshot = false, from_template = false;  // `image` is the id of one
};

// Builds the body of POST /sandboxes. An empty `entrypoint` makes a sandbox that waits for
// commands. kInvalidArgument names the option.
Result<nlohmann::json> CreateBody(const RunOptions& options, const Words& entrypoint,
                                  int timeout_seconds);

// Builds the body of POST /templates from those options that a template has. `entrypoint` may be
// empty.
Result<nlohmann::json> TemplateBody(const RunOptions& options, const Words& entrypoint);

// Returns the command to run. ENTRYPOINT and CMD of `image` and the given words are combined as
// docker does. kInvalidArgument: the result is empty.
Result<Words> CommandOf(const RunOptions& options, const nlohmann::json& image);

}  // namespace atl::cli
