#include "tools/atoll/verbs/audit_export.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "runtime/base/json_text.h"
#include "runtime/tenants/audit/line_time.h"
#include "tools/atoll/words/csv.h"

namespace atl::cli {
namespace {

constexpr char kOcsfVersion[] = "1.3.0";

struct OcsfClass {
  int uid;
  const char* name;
  int category;
  const char* category_name;
};
constexpr OcsfClass kFileActivity{1001, "File System Activity", 1, "System Activity"};
constexpr OcsfClass kProcessActivity{1007, "Process Activity", 1, "System Activity"};
constexpr OcsfClass kLoginActivity{3002, "Authentication", 3, "Identity & Access Management"};
constexpr OcsfClass kApiActivity{6003, "API Activity", 6, "Application Activity"};

struct Activity {
  int id;
  const char* name;
};

Result<nlohmann::json> JsonOfLine(std::string_view line) {
  nlohmann::json parsed = JsonOrNull(line);
  if (!parsed.is_object() || !parsed.contains("seq") || !parsed.contains("action")) {
    return Fail(Code::kInvalidArgument, "a line is not one of the audit log");
  }
  return parsed;
}

std::string TextIn(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

nlohmann::json ObjectIn(const nlohmann::json& line, const char* name) {
  const auto found = line.find(name);
  return found != line.end() && found->is_object() ? *found : nlohmann::json::object();
}

const OcsfClass& ClassOf(const std::string& action) {
  if (action.starts_with("exec.")) return kProcessActivity;
  if (action.starts_with("file.")) return kFileActivity;
  if (action.starts_with("login.")) return kLoginActivity;
  return kApiActivity;
}

Activity ActivityOf(const OcsfClass& kind, const std::string& action) {
  const std::string verb = action.substr(action.find('.') + 1);
  if (kind.uid == kProcessActivity.uid) {
    return verb == "signal" ? Activity{2, "Terminate"} : Activity{1, "Launch"};
  }
  if (kind.uid == kLoginActivity.uid) return {1, "Logon"};
  if (verb == "read" || verb == "export" || verb == "issue") return {2, "Read"};
  if (verb == "delete" || verb == "prune" || verb == "expire" || verb == "end")
    return {4, "Delete"};
  if (verb == "create" || verb == "import" || verb == "fork" || verb == "commit") {
    return {1, "Create"};
  }
  if (verb == "write" || verb == "change" || verb == "label" || verb == "resize" ||
      verb == "pause" || verb == "resume" || verb == "renew" || verb == "rollback") {
    return {3, "Update"};
  }
  return {99, "Other"};
}

// Returns who a request came from; the daemon itself if from nobody.
nlohmann::json SourceOf(const nlohmann::json& from) {
  if (const std::string ip = TextIn(from, "ip"); !ip.empty()) return {{"ip", ip}};
  return {{"svc_name", "atolld"}};
}

// Returns null if the line has no target that can be named.
nlohmann::json ResourceOf(const nlohmann::json& target) {
  nlohmann::json resource;
  for (const auto& [from, to] : {std::pair{"id", "uid"}, {"name", "name"}}) {
    if (const std::string text = TextIn(target, from); !text.empty()) resource[to] = text;
  }
  if (!resource.empty()) resource["type"] = TextIn(target, "kind");
  return resource;
}

// `path` is empty unless the level of the action is `full`.
nlohmann::json FileOf(const std::string& path) {
  nlohmann::json file = {{"name", "Unknown"}, {"type", "Unknown"}, {"type_id", 0}};
  if (!path.empty()) {
    file["name"] = path.substr(path.rfind('/') + 1);
    file["path"] = path;
  }
  return file;
}

}  // namespace

Result<std::string> OcsfEvent(std::string_view text) {
  ATOLL_ASSIGN(const nlohmann::json line, JsonOfLine(text));
  const std::string action = TextIn(line, "action"), outcome = TextIn(line, "outcome");
  const OcsfClass& kind = ClassOf(action);
  const Activity activity = ActivityOf(kind, action);
  const nlohmann::json actor = ObjectIn(line, "actor"), from = ObjectIn(line, "from");
  const nlohmann::json target = ObjectIn(line, "target"), what = ObjectIn(line, "what");
  const bool good = outcome == "success";
  nlohmann::json user = {
      {"uid", TextIn(actor, "id").empty() ? TextIn(actor, "kind") : TextIn(actor, "id")},
      {"name", TextIn(actor, "sub").empty() ? TextIn(actor, "kind") : TextIn(actor, "sub")},
      {"type", "Other"},
      {"type_id", 99}};
  if (const std::string role = TextIn(actor, "role"); !role.empty()) {
    user["groups"] = nlohmann::json::array({{{"name", role}, {"uid", role}}});
  }
  const std::string uid =
      TextIn(line, "boot") + "-" + std::to_string(line.value("seq", uint64_t{0}));
  nlohmann::json event = {
      {"metadata",
       {{"version", kOcsfVersion},
        {"uid", uid},
        {"original_time", TextIn(line, "time")},
        {"product", {{"name", "Atoll"}, {"vendor_name", "Atoll"}, {"version", ATOLL_VERSION}}}}},
      {"time", audit::UnixMicrosOf(TextIn(line, "time")) / 1000},
      {"class_uid", kind.uid},
      {"class_name", kind.name},
      {"category_uid", kind.category},
      {"category_name", kind.category_name},
      {"activity_id", activity.id},
      {"activity_name", activity.name},
      {"type_uid", kind.uid * 100 + activity.id},
      {"type_name", std::string(kind.name) + ": " + activity.name},
      {"severity_id", good ? 1 : 3},
      {"severity", good ? "Informational" : "Medium"},
      {"status", good ? "Success" : "Failure"},
      {"status_id", good ? 1 : 2},
      {"status_detail", outcome},
      {"actor", {{"user", user}}},
      {"unmapped", {{"action", action}, {"what", what}, {"hash", TextIn(line, "hash")}}}};
  if (const std::string tenant = TextIn(line, "tenant"); !tenant.empty()) {
    event["metadata"]["tenant_uid"] = tenant;
  }
  if (line.contains("status")) event["status_code"] = std::to_string(line.value("status", 0));
  if (line.contains("took_us")) event["duration"] = line.value("took_us", int64_t{0}) / 1000;
  const std::string agent = TextIn(from, "agent");
  if (kind.uid == kApiActivity.uid || kind.uid == kLoginActivity.uid) {
    event["src_endpoint"] = SourceOf(from);
    if (!agent.empty()) event["http_request"] = {{"user_agent", agent}};
  } else {
    // These classes have no attribute for where a request came from.
    event["unmapped"]["from"] = from;
    if (!agent.empty()) event["actor"]["app_name"] = agent;
  }
  if (kind.uid == kApiActivity.uid) {
    event["api"] = {{"operation", action}};
    if (const std::string request = TextIn(line, "request"); !request.empty()) {
      event["api"]["request"] = {{"uid", request}};
    }
    if (const nlohmann::json resource = ResourceOf(target); !resource.empty()) {
      event["resources"] = nlohmann::json::array({resource});
    }
    return JsonText(event);
  }
  if (kind.uid == kLoginActivity.uid) {
    event["user"] = user;
    event["service"] = {{"name", "Atoll"}};
    event["message"] = TextIn(what, "reason");
    return JsonText(event);
  }
  // The device is the sandbox.
  event["device"] = {{"uid", TextIn(target, "id")}, {"type", "Virtual"}, {"type_id", 6}};
  if (kind.uid == kProcessActivity.uid) {
    // The log does not tell the process's number.
    event["process"] = {
        {"uid", uid}, {"name", TextIn(what, "argv0")}, {"cmd_line", TextIn(what, "command")}};
  } else {
    event["file"] = FileOf(TextIn(what, "path"));
  }
  return JsonText(event);
}

Result<std::string> CsvRow(std::string_view text) {
  ATOLL_ASSIGN(const nlohmann::json line, JsonOfLine(text));
  const nlohmann::json actor = ObjectIn(line, "actor"), from = ObjectIn(line, "from");
  const nlohmann::json target = ObjectIn(line, "target");
  const std::string name =
      TextIn(target, "id").empty() ? TextIn(target, "name") : TextIn(target, "id");
  return CsvLine({std::to_string(line.value("seq", uint64_t{0})), TextIn(line, "time"),
                  TextIn(line, "action"), TextIn(line, "outcome"),
                  line.contains("status") ? std::to_string(line.value("status", 0)) : "",
                  TextIn(line, "tenant"),
                  TextIn(actor, "id").empty() ? TextIn(actor, "kind") : TextIn(actor, "id"),
                  TextIn(actor, "role"), TextIn(from, "ip"), TextIn(from, "agent"),
                  TextIn(target, "kind"), name, TextIn(target, "image"), TextIn(line, "request"),
                  line.contains("what") ? JsonText(line["what"]) : ""});
}

}  // namespace atl::cli
