// What `atoll run` asks for, in docker's words, and as the server wants to have it.
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
  std::string pause_memory;                   // keep, reclaim; empty: the operator's
  std::string idle;                           // DURATION[:pause|end]; empty: the operator's
  std::map<std::string, std::string> limits;  // as in resourceLimits; empty: not asked for
  // A day: one that was forgotten goes away by itself.
  int timeout_seconds = 86400;
  bool interactive = false, terminal = false, detach = false, keep = false, remove = false;
  bool readonly = false;
  bool secure = false;                           // its ports ask for a token or a signed link
  bool snapshot = false, from_template = false;  // `image` is the id of such a one
};

// The body of POST /sandboxes, with `entrypoint`; empty: with none, to wait for commands.
// kInvalidArgument names the option.
Result<nlohmann::json> CreateBody(const RunOptions& options, const Words& entrypoint,
                                  int timeout_seconds);

// The body of POST /templates, as far as the options of `run` say it; `entrypoint` may be empty.
Result<nlohmann::json> TemplateBody(const RunOptions& options, const Words& entrypoint);

// What is to run: as docker puts ENTRYPOINT and CMD of `image` and what was given together.
// kInvalidArgument: there is nothing.
Result<Words> CommandOf(const RunOptions& options, const nlohmann::json& image);

}  // namespace atl::cli
