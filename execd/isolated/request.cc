#include "execd/isolated/request.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "execd/http/request_json.h"

namespace atl::execd {
namespace {

constexpr int64_t kYearSeconds = int64_t{365} * 24 * 3600;
constexpr size_t kMaxKeys = 1024;

// Variables that no session gets.
constexpr std::string_view kOurs[] = {
    "EXECD_ACCESS_TOKEN",     "JUPYTER_HOST",      "JUPYTER_TOKEN",
    "EXECD_ISOLATION_CONFIG", "EXECD_ENVS",        "OPENSANDBOX_LIFECYCLE",
    "EXECD_LIFECYCLE_CONFIG", "EXECD_RUNTIME_INIT"};
// Variables withheld if the request does not list any.
constexpr std::string_view kSecretEnds[] = {"_API_KEY", "_TOKEN", "_SECRET", "_PASSWORD"};
constexpr std::string_view kSecretBegins[] = {"AWS_", "ALI_", "ALIYUN_", "K8S_", "KUBE_"};

Error Wrong(const std::string& what) {
  return Error(Code::kInvalidArgument, what);
}

bool IsAbsent(const JsonValue& value) {
  return !value.present() || value.is(JsonType::kNull);
}

Result<bool> Flag(const JsonValue& object, std::string_view name, bool absent) {
  const JsonValue value = object.Find(name);
  if (IsAbsent(value)) return absent;
  if (!value.is(JsonType::kBool)) return Fail(Wrong(std::string(name) + ": must be true or false"));
  return value.boolean();
}

// Returns the index of the member's value in `words`; the first if it is absent.
template <size_t N>
Result<size_t> Choice(const JsonValue& object, std::string_view name,
                      const std::array<std::string_view, N>& words, size_t absent) {
  ATOLL_ASSIGN(const std::string text, TextMember(object, name));
  if (text.empty()) return absent;
  for (size_t i = 0; i < N; ++i) {
    if (text == words[i]) return i;
  }
  std::string all;
  for (const std::string_view word : words) all.append(all.empty() ? "" : ", ").append(word);
  return Fail(Wrong(std::string(name) + ": '" + text.substr(0, 64) + "': use one of " + all));
}

// Checks that a path is absolute, without ".", ".." and a final slash.
Status CheckPath(const std::string& what, const std::string& path) {
  wire::SessionSpec spec{.number = 1, .mounts = {{.source = path, .target = "/x"}}};
  if (wire::CheckForm(spec)) return {};
  return Fail(Wrong(what + " '" + path.substr(0, 64) +
                    "': use an absolute path without '.', '..' and a slash at its end"));
}

Result<IsolatedOverlay> ParseOverlay(const JsonValue& value, const std::string& what) {
  if (!value.is(JsonType::kObject)) return Fail(Wrong(what + ": must be an object"));
  constexpr std::array<std::string_view, 3> kModes = {"rw", "overlay", "ro"};
  IsolatedOverlay overlay;
  ATOLL_ASSIGN(overlay.path, TextMember(value, "path"));
  ATOLL_TRY(CheckPath(what + ".path", overlay.path));
  ATOLL_ASSIGN(const size_t mode, Choice(value, "mode", kModes, 1));
  overlay.mode = static_cast<IsolatedOverlay::Mode>(mode);
  if (!IsAbsent(value.Find("persist")) && overlay.mode != IsolatedOverlay::Mode::kOverlay) {
    return Fail(Wrong(what + ".persist: only mode overlay can persist"));
  }
  ATOLL_ASSIGN(overlay.persist, Flag(value, "persist", true));
  return overlay;
}

// Calls `each` for the elements of a list that may be absent.
template <typename Each>
Status ForEach(const JsonValue& object, std::string_view name, size_t most, const Each& each) {
  const JsonValue list = object.Find(name);
  if (IsAbsent(list)) return {};
  if (!list.is(JsonType::kArray)) return Fail(Wrong(std::string(name) + ": must be a list"));
  size_t count = 0;
  for (JsonValue item = list.first(); item.present(); item = item.next()) {
    if (++count > most) return Fail(Wrong(std::string(name) + ": too many"));
    ATOLL_TRY(each(item));
  }
  return {};
}

Result<std::string> Text(const JsonValue& value, std::string_view what) {
  if (!value.is(JsonType::kString) || value.text().find('\0') != std::string_view::npos) {
    return Fail(Wrong(std::string(what) + ": must be text without NUL"));
  }
  return std::string(value.text());
}

Status ParseMounts(const JsonValue& root, IsolatedRequest* request) {
  if (const JsonValue workspace = root.Find("workspace"); !IsAbsent(workspace)) {
    ATOLL_ASSIGN(IsolatedOverlay overlay, ParseOverlay(workspace, "workspace"));
    if (!IsAbsent(workspace.Find("persist")))
      return Fail(Wrong("workspace.persist: no such member"));
    request->overlays.push_back(std::move(overlay));
  }
  ATOLL_TRY(
      ForEach(root, "overlays", wire::kMaxSessionOverlays, [&](const JsonValue& item) -> Status {
        ATOLL_ASSIGN(IsolatedOverlay overlay, ParseOverlay(item, "overlays"));
        request->overlays.push_back(std::move(overlay));
        return {};
      }));
  if (request->overlays.empty()) return Fail(Wrong("send workspace or overlays"));
  if (request->overlays.size() > wire::kMaxSessionOverlays) {
    return Fail(Wrong("overlays: at most " + std::to_string(wire::kMaxSessionOverlays)));
  }
  const auto take_path = [request](const JsonValue& item) -> Status {
    ATOLL_ASSIGN(std::string path, Text(item, "extra_writable"));
    ATOLL_TRY(CheckPath("extra_writable", path));
    request->extra_writable.push_back(std::move(path));
    return {};
  };
  ATOLL_TRY(ForEach(root, "extra_writable", wire::kMaxSessionMounts, take_path));
  const auto take_bind = [request](const JsonValue& item) -> Status {
    if (!item.is(JsonType::kObject)) return Fail(Wrong("binds: must be objects"));
    IsolatedBind bind;
    ATOLL_ASSIGN(bind.source, TextMember(item, "source"));
    ATOLL_ASSIGN(bind.dest, TextMember(item, "dest"));
    ATOLL_ASSIGN(bind.readonly, Flag(item, "readonly", false));
    if (bind.dest.empty()) bind.dest = bind.source;
    ATOLL_TRY(CheckPath("binds.source", bind.source));
    ATOLL_TRY(CheckPath("binds.dest", bind.dest));
    request->binds.push_back(std::move(bind));
    return {};
  };
  ATOLL_TRY(ForEach(root, "binds", wire::kMaxSessionMounts, take_bind));
  std::set<std::string_view> targets;
  const auto once = [&targets](const std::string& path) -> Status {
    for (const std::string_view own : {"/dev", "/proc", "/sys"}) {
      if (path == own || path.starts_with(std::string(own) + "/")) {
        return Fail(Wrong("'" + path + "': a session has " + std::string(own) + " of its own"));
      }
    }
    if (targets.insert(path).second) return {};
    return Fail(Wrong("'" + path + "': named twice"));
  };
  for (const IsolatedOverlay& overlay : request->overlays) ATOLL_TRY(once(overlay.path));
  for (const std::string& path : request->extra_writable) ATOLL_TRY(once(path));
  for (const IsolatedBind& bind : request->binds) ATOLL_TRY(once(bind.dest));
  if (targets.size() > wire::kMaxSessionMounts) {
    return Fail(Wrong("more than " + std::to_string(wire::kMaxSessionMounts) + " mounts"));
  }
  return {};
}

Result<std::optional<uint32_t>> ParseIdMember(const JsonValue& root, std::string_view name) {
  ATOLL_ASSIGN(const int64_t value, IntegerMember(root, name, 0, int64_t{UINT32_MAX} - 1, -1));
  if (value < 0) return std::nullopt;
  return static_cast<uint32_t>(value);
}

struct LimitMember {
  const char* name;
  uint64_t wire::SessionTerms::*value;
};
constexpr LimitMember kLimitMembers[] = {{"memory_bytes", &wire::SessionTerms::memory_bytes},
                                         {"pids", &wire::SessionTerms::pids},
                                         {"cpu_millis", &wire::SessionTerms::cpu_millis}};

Result<wire::SessionTerms> ParseLimits(const JsonValue& root) {
  wire::SessionTerms terms;
  const JsonValue limits = root.Find("limits");
  if (IsAbsent(limits)) return terms;
  if (!limits.is(JsonType::kObject)) return Fail(Wrong("limits: must be an object"));
  for (JsonValue item = limits.first(); item.present(); item = item.next()) {
    const auto known =
        std::find_if(std::begin(kLimitMembers), std::end(kLimitMembers),
                     [&](const LimitMember& member) { return item.name() == member.name; });
    // An unknown member is refused, because the client would assume that it applies.
    if (known == std::end(kLimitMembers)) {
      return Fail(Wrong("limits: '" + std::string(item.name()).substr(0, 64) +
                        "': use memory_bytes, pids, cpu_millis"));
    }
    ATOLL_ASSIGN(const int64_t value, IntegerMember(limits, known->name, 0, INT64_MAX, 0));
    terms.*known->value = static_cast<uint64_t>(value);
  }
  if (const Status form = wire::CheckForm(terms); !form) return Fail(Wrong(form.error().message()));
  return terms;
}

std::string Upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return out;
}

bool IsSecret(const std::string& name) {
  return std::any_of(std::begin(kSecretEnds), std::end(kSecretEnds),
                     [&](std::string_view end) { return name.ends_with(end); }) ||
         std::any_of(std::begin(kSecretBegins), std::end(kSecretBegins),
                     [&](std::string_view begin) { return name.starts_with(begin); });
}

void AppendStrings(std::string* out, const std::vector<std::string>& strings) {
  out->push_back('[');
  for (const std::string& text : strings) {
    if (&text != &strings.front()) out->push_back(',');
    AppendJsonString(out, text);
  }
  out->push_back(']');
}

constexpr std::string_view ModeName(IsolatedOverlay::Mode mode) {
  return mode == IsolatedOverlay::Mode::kRw   ? "rw"
         : mode == IsolatedOverlay::Mode::kRo ? "ro"
                                              : "overlay";
}

const char* Bool(bool value) {
  return value ? "true" : "false";
}

}  // namespace

bool IsolatedRequest::HasDurableWorkspace() const {
  const IsolatedOverlay& workspace = overlays.front();
  return workspace.mode == IsolatedOverlay::Mode::kRw ||
         (workspace.mode == IsolatedOverlay::Mode::kOverlay && workspace.persist);
}

Result<IsolatedRequest> ParseIsolatedRequest(std::string body) {
  ATOLL_ASSIGN(const JsonDocument document, ParseObject(std::move(body), false));
  const JsonValue root = document.root();
  IsolatedRequest request;
  constexpr std::array<std::string_view, 2> kUidModes = {"setpriv", "userns"};
  constexpr std::array<std::string_view, 2> kEnvModes = {"deny", "allow"};
  ATOLL_ASSIGN(const std::string profile, TextMember(root, "profile"));
  request.strict = profile != "balanced";
  if (request.strict && !profile.empty() && profile != "strict") {
    return Fail(Code::kNotFound,
                "profile: '" + profile.substr(0, 64) + "': use one of strict, balanced");
  }
  ATOLL_TRY(ParseMounts(root, &request));
  ATOLL_ASSIGN(request.share_net, Flag(root, "share_net", true));
  if (const JsonValue env = root.Find("env_passthrough"); !IsAbsent(env)) {
    if (!env.is(JsonType::kObject)) return Fail(Wrong("env_passthrough: must be an object"));
    ATOLL_ASSIGN(const size_t mode, Choice(env, "mode", kEnvModes, 0));
    request.allow_env = mode == 1;
    ATOLL_TRY(ForEach(env, "keys", kMaxKeys, [&](const JsonValue& item) -> Status {
      ATOLL_ASSIGN(std::string key, Text(item, "env_passthrough.keys"));
      request.env_keys.push_back(std::move(key));
      return {};
    }));
  }
  ATOLL_ASSIGN(request.uid, ParseIdMember(root, "uid"));
  ATOLL_ASSIGN(request.gid, ParseIdMember(root, "gid"));
  ATOLL_ASSIGN(const size_t uid_mode, Choice(root, "uid_mode", kUidModes, 0));
  request.userns = uid_mode == 1;
  ATOLL_ASSIGN(request.idle_seconds,
               IntegerMember(root, "idle_timeout_seconds", 0, kYearSeconds, 0));
  ATOLL_ASSIGN(request.limits, ParseLimits(root));
  return request;
}

void AppendIsolatedParameters(std::string* out, const IsolatedRequest& request) {
  out->append(request.strict ? ",\"profile\":\"strict\"" : ",\"profile\":\"balanced\"");
  if (request.overlays.size() == 1) {
    out->append(",\"workspace\":{\"path\":");
    AppendJsonString(out, request.overlays.front().path);
    out->append(",\"mode\":\"").append(ModeName(request.overlays.front().mode)).append("\"}");
  }
  out->append(",\"overlays\":[");
  for (const IsolatedOverlay& overlay : request.overlays) {
    if (&overlay != &request.overlays.front()) out->push_back(',');
    out->append("{\"path\":");
    AppendJsonString(out, overlay.path);
    out->append(",\"mode\":\"").append(ModeName(overlay.mode)).append("\"");
    if (overlay.mode == IsolatedOverlay::Mode::kOverlay) {
      out->append(",\"persist\":").append(Bool(overlay.persist));
    }
    out->push_back('}');
  }
  out->append("],\"extra_writable\":");
  AppendStrings(out, request.extra_writable);
  out->append(",\"binds\":[");
  for (const IsolatedBind& bind : request.binds) {
    if (&bind != &request.binds.front()) out->push_back(',');
    out->append("{\"source\":");
    AppendJsonString(out, bind.source);
    out->append(",\"dest\":");
    AppendJsonString(out, bind.dest);
    out->append(",\"readonly\":").append(Bool(bind.readonly)).push_back('}');
  }
  out->append("],\"share_net\":").append(Bool(request.share_net));
  out->append(",\"env_passthrough\":{\"mode\":\"").append(request.allow_env ? "allow" : "deny");
  out->append("\",\"keys\":");
  AppendStrings(out, request.env_keys);
  out->push_back('}');
  for (const auto& [name, id] : {std::pair{"uid", request.uid}, {"gid", request.gid}}) {
    if (!id) continue;
    out->append(",\"").append(name).append("\":");
    AppendJsonInteger(out, *id);
  }
  out->append(request.userns ? ",\"uid_mode\":\"userns\"" : ",\"uid_mode\":\"setpriv\"");
  out->append(",\"idle_timeout_seconds\":");
  AppendJsonInteger(out, request.idle_seconds);
  if (!request.limits.limited()) return;
  const char* separator = ",\"limits\":{";
  for (const LimitMember& member : kLimitMembers) {
    const uint64_t value = request.limits.*member.value;
    if (value == 0) continue;
    out->append(std::exchange(separator, ",")).append("\"").append(member.name).append("\":");
    AppendJsonInteger(out, static_cast<int64_t>(value));
  }
  out->push_back('}');
}

std::vector<std::string> IsolatedEnvironment(const IsolatedRequest& request,
                                             const std::vector<std::string>& entries) {
  std::set<std::string> keys;
  for (const std::string& key : request.env_keys) {
    keys.insert(request.allow_env ? key : Upper(key));
  }
  std::vector<std::string> kept;
  for (const std::string& entry : entries) {
    const std::string name = entry.substr(0, entry.find('='));
    const std::string upper = Upper(name);
    if (std::find(std::begin(kOurs), std::end(kOurs), upper) != std::end(kOurs)) continue;
    const bool given = request.allow_env ? keys.contains(name)
                       : keys.empty()    ? !IsSecret(upper)
                                         : !keys.contains(upper);
    if (given) kept.push_back(entry);
  }
  return kept;
}

Result<IsolatedRun> ParseIsolatedRun(std::string body) {
  ATOLL_ASSIGN(const JsonDocument document, ParseObject(std::move(body), false));
  const JsonValue root = document.root();
  IsolatedRun run;
  ATOLL_ASSIGN(run.code, TextMember(root, "code"));
  if (run.code.empty()) return Fail(Wrong("code: is empty or missing"));
  ATOLL_ASSIGN(run.timeout_seconds, IntegerMember(root, "timeout_seconds", 0, kYearSeconds, 0));
  ATOLL_ASSIGN(run.background, Flag(root, "background", false));
  const JsonValue envs = root.Find("envs");
  if (IsAbsent(envs)) return run;
  if (!envs.is(JsonType::kObject)) return Fail(Wrong("envs: must be an object"));
  for (JsonValue item = envs.first(); item.present(); item = item.next()) {
    const std::string name(item.name());
    const bool identifier = !name.empty() && !(name[0] >= '0' && name[0] <= '9') &&
                            std::all_of(name.begin(), name.end(), [](char c) {
                              return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                     (c >= '0' && c <= '9') || c == '_';
                            });
    if (!identifier)
      return Fail(Wrong("envs: '" + name.substr(0, 64) + "' is not a variable's name"));
    ATOLL_ASSIGN(std::string value, Text(item, "envs." + name));
    run.envs.emplace_back(name, std::move(value));
  }
  return run;
}

}  // namespace atl::execd
