#include "tools/atoll/client/create_body.h"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cgroup/limits.h"
#include "runtime/base/duration.h"
#include "runtime/base/json_text.h"
#include "runtime/base/sys.h"
#include "tools/atoll/client/command.h"
#include "tools/atoll/client/ending.h"
#include "tools/atoll/words/grammar.h"

namespace atl::cli {
namespace {

using nlohmann::json;

// Converts a size: "512m" means mebibytes in docker, but "m" means thousandths to the server.
std::string SizeOf(const std::string& given) {
  const size_t digits = given.find_first_not_of("0123456789.");
  if (digits == std::string::npos || digits == 0) return given;
  std::string unit = given.substr(digits);
  if (unit == "b") return given.substr(0, digits);
  if (unit.ends_with('b')) unit.pop_back();
  const size_t known = std::string("kmgt").find(unit);
  if (unit.size() != 1 || known == std::string::npos) return given;
  return given.substr(0, digits) + "KMGT"[known] + "i";
}

json LimitsOf(const RunOptions& options) {
  json limits = json::object();
  for (const auto& [key, text] : options.limits) {
    // Limits of "io" have their own form: "rbps=10M".
    const bool size = std::any_of(cgroup::kLimitFields.begin(), cgroup::kLimitFields.end(),
                                  [&key](const cgroup::LimitField& field) {
                                    return field.kind == cgroup::LimitKind::kBytes &&
                                           key == field.key && key == field.name;
                                  });
    if (!text.empty()) limits[key] = size ? SizeOf(text) : text;
  }
  return limits;
}

Result<json> MetadataOf(const RunOptions& options) {
  json metadata = json::object();
  if (!options.name.empty()) metadata["name"] = options.name;
  for (const std::string& entry : options.labels) {
    const size_t equals = entry.find('=');
    if (equals == 0 || entry.empty()) return Wrong("--label " + entry + ": KEY=VALUE is expected");
    metadata[entry.substr(0, equals)] = equals == std::string::npos ? "" : entry.substr(equals + 1);
  }
  return metadata;
}

// Parses VOLUME:PATH[:ro] or DIRECTORY:PATH[:ro].
Result<json> VolumeOf(const std::string& given, size_t number) {
  const size_t colon = given.find(':');
  if (colon == std::string::npos || colon == 0) {
    return Wrong("-v " + given + ": VOLUME:PATH or DIRECTORY:PATH is expected, with :ro to read");
  }
  const std::string source = given.substr(0, colon);
  std::string path = given.substr(colon + 1), mode;
  if (const size_t second = path.find(':'); second != std::string::npos) {
    mode = path.substr(second + 1);
    path.resize(second);
  }
  if (!mode.empty() && mode != "ro" && mode != "rw") {
    return Wrong("-v " + given + ": '" + mode + "' is neither ro nor rw");
  }
  json volume = {{"name", "v" + std::to_string(number)}, {"mountPath", path}};
  if (mode == "ro") volume["readOnly"] = true;
  if (source.front() == '/' || source.front() == '.') {
    volume["host"]["path"] = std::filesystem::absolute(source).lexically_normal().string();
  } else {
    volume["pvc"]["claimName"] = source;
  }
  return volume;
}

Status AddNetwork(const RunOptions& options, json* body) {
  if (options.network == "host") {
    return Wrong(
        "--network host: no sandbox sees the host's network; a port of it is reached by "
        "'atoll port ID PORT'");
  }
  if (options.network == "none") {
    (*body)["networkPolicy"] = {{"defaultAction", "deny"}, {"egress", json::array()}};
  } else if (!options.network.empty() && options.network != "bridge" &&
             options.network != "default") {
    (*body)["extensions"]["network"] = options.network;
    if (!options.name.empty()) (*body)["extensions"]["network.hostname"] = options.name;
  }
  if (options.policy.empty()) return {};
  if (options.network == "none") return Wrong("--policy and --network none say it twice");
  std::string text = options.policy;
  if (text.front() != '{') {
    constexpr size_t kMaxPolicy = 1 << 20;
    ATOLL_ASSIGN(text, sys::ReadFileAt(AT_FDCWD, options.policy, kMaxPolicy));
  }
  json policy = JsonOrNull(text);
  if (!policy.is_object()) return Wrong("--policy " + options.policy + ": is not a JSON object");
  (*body)["networkPolicy"] = std::move(policy);
  return {};
}

// Parses DURATION or DURATION:ACTION. The server checks the action.
Status AddIdle(const std::string& given, json* body) {
  if (given.empty()) return {};
  const size_t colon = given.find(':');
  const auto seconds = ParseDuration(given.substr(0, colon));
  if (!seconds) return Wrong("--idle " + given + ": a duration is expected, such as 90s, 5m or 2h");
  (*body)["extensions"]["idle.after"] = std::to_string(*seconds);
  if (colon != std::string::npos) (*body)["extensions"]["idle.action"] = given.substr(colon + 1);
  return {};
}

Words TextsOf(const json& object, const char* name) {
  Words texts;
  for (const json& text : object.value(name, json::array())) {
    if (text.is_string()) texts.push_back(text.get<std::string>());
  }
  return texts;
}

}  // namespace

Result<json> CreateBody(const RunOptions& options, const Words& entrypoint, int timeout_seconds) {
  json body = {{"timeout", timeout_seconds}};
  json limits = LimitsOf(options);
  // A template's program already runs, within its own limits.
  if (!options.from_template || !limits.empty()) body["resourceLimits"] = std::move(limits);
  if (!entrypoint.empty()) {
    body["entrypoint"] = entrypoint;
  } else if (!options.from_template) {
    body["extensions"]["entrypoint"] = "none";
  }
  if (options.from_template) {
    body["templateId"] = options.image;
  } else if (options.snapshot) {
    body["snapshotId"] = options.image;
  } else {
    body["image"] = {{"uri", options.image}};
  }
  ATOLL_ASSIGN(const auto env, ExpandEnvironment(options.env, options.env_files));
  if (!env.empty()) body["env"] = EnvironmentObject(env);
  ATOLL_ASSIGN(json metadata, MetadataOf(options));
  if (!metadata.empty()) body["metadata"] = std::move(metadata);
  if (!options.name.empty()) body["extensions"]["uniqueName"] = "true";
  for (const std::string& given : options.volumes) {
    ATOLL_ASSIGN(json volume, VolumeOf(given, body["volumes"].size()));
    body["volumes"].push_back(std::move(volume));
  }
  if (options.readonly) body["extensions"]["readOnlyRootFilesystem"] = "true";
  if (options.secure) body["secureAccess"] = true;
  if (options.remove) body["extensions"][kRemoveAtEnd] = "true";
  if (!options.pool.empty()) body["extensions"]["poolRef"] = options.pool;
  ATOLL_TRY(AddIdle(options.idle, &body));
  if (!options.isolation.empty()) body["extensions"]["isolation"] = options.isolation;
  if (!options.pause_memory.empty()) body["extensions"]["pause.memory"] = options.pause_memory;
  ATOLL_TRY(AddNetwork(options, &body));
  return body;
}

Result<json> TemplateBody(const RunOptions& options, const Words& entrypoint) {
  json body = {{"image", options.image}, {"resourceLimits", LimitsOf(options)}};
  if (!entrypoint.empty()) body["entrypoint"] = entrypoint;
  ATOLL_ASSIGN(const auto env, ExpandEnvironment(options.env, options.env_files));
  if (!env.empty()) body["env"] = EnvironmentObject(env);
  ATOLL_ASSIGN(json metadata, MetadataOf(options));
  if (!metadata.empty()) body["metadata"] = std::move(metadata);
  return body;
}

Result<Words> CommandOf(const RunOptions& options, const json& image) {
  Words command =
      options.entrypoint.empty() ? TextsOf(image, "entrypoint") : Words{options.entrypoint};
  Words rest = options.command;
  if (rest.empty() && options.entrypoint.empty()) rest = TextsOf(image, "cmd");
  command.insert(command.end(), rest.begin(), rest.end());
  if (command.empty()) {
    const std::string kind = options.snapshot        ? "snapshot "
                             : options.from_template ? "template "
                                                     : "image ";
    return Wrong(kind + options.image + " names no program; type one: atoll run " +
                 (kind == "image " ? "" : "--" + kind) + options.image + " COMMAND");
  }
  return command;
}

}  // namespace atl::cli
