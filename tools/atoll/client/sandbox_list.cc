#include "tools/atoll/client/sandbox_list.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/json_text.h"
#include "runtime/base/sandbox_id.h"
#include "runtime/http/ascii.h"
#include "tools/atoll/client/ending.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/client/report.h"
#include "tools/atoll/words/nearest.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

using nlohmann::json;

constexpr const char* kExecdPort = "44772";

std::string CostIn(const json& usage) {
  const auto cost = usage.find("cost");
  if (cost == usage.end() || !cost->is_number()) return {};
  char amount[64];
  std::snprintf(amount, sizeof amount, "%.4f ", cost->get<double>());
  return amount + Printable(TextOf(usage, "currency"));
}

SandboxEntry EntryOf(const json& item) {
  SandboxEntry entry;
  entry.id = Printable(TextOf(item, "id"));
  entry.image = item.contains("snapshotId") ? TextOf(item, "snapshotId")
                                            : TextOf(item.value("image", json::object()), "uri");
  const json status = item.value("status", json::object());
  entry.state = TextOf(status, "state");
  entry.reason = TextOf(status, "reason");
  entry.tenant = TextOf(item, "tenant");
  if (entry.HasEnded()) {
    const auto code = ExitCodeIn(item);
    entry.exit = code ? std::to_string(*code) : "-";
  }
  // The server names the tier unless it is the usual one.
  entry.isolation = TextOf(item.value("extensions", json::object()), "isolation");
  if (entry.isolation.empty()) entry.isolation = "namespace";
  entry.created = TimeOf(item, "createdAt");
  entry.expires = item.contains("expiresAt") ? TimeOf(item, "expiresAt") : "never";
  entry.gone = TimeOf(item, "goneAt");
  entry.cost = CostIn(item.value("usage", json::object()));
  const json labels = item.value("metadata", json::object());
  for (const auto& [key, value] : labels.items()) entry.labels[key] = TextOf(labels, key.c_str());
  entry.name = entry.labels["name"];
  if (entry.name.empty()) entry.labels.erase("name");
  for (const json& word : item.value("entrypoint", json::array())) {
    if (!word.is_string()) continue;
    entry.command += (entry.command.empty() ? "" : " ") + ShellQuote(word.get<std::string>());
  }
  entry.json = JsonText(item);
  return entry;
}

}  // namespace

bool SandboxEntry::HasLabel(const std::string& wanted) const {
  const size_t equals = wanted.find('=');
  const auto found = labels.find(wanted.substr(0, equals));
  if (found == labels.end()) return false;
  return equals == std::string::npos || found->second == wanted.substr(equals + 1);
}

std::string SandboxEntry::LabelText() const {
  std::string text;
  for (const auto& [key, value] : labels) text += (text.empty() ? "" : ",") + key + "=" + value;
  return text;
}

bool StatusMatches(const std::string& state, const std::string& asked) {
  std::string low = state;
  for (char& c : low) c = http::ToLower(c);
  if (asked == "exited") return state == "Terminated" || state == "Failed";
  if (asked == "dead") return state == "Failed";
  if (asked == "created") return state == "Pending";
  return asked == state || asked == low;
}

Result<std::vector<SandboxEntry>> FetchSandboxes(Api& api, const std::string& query) {
  std::vector<SandboxEntry> all;
  ATOLL_ASSIGN(const json items, FetchPages(api, "/sandboxes", query));
  for (const json& item : items) {
    SandboxEntry entry = EntryOf(item);
    if (api.tenant().empty() || entry.tenant == api.tenant()) all.push_back(std::move(entry));
  }
  return all;
}

Result<std::vector<SandboxEntry>> FetchGone(Api& api) {
  std::vector<SandboxEntry> all;
  std::string cursor;
  do {
    ATOLL_ASSIGN(const json page,
                 Fetch(api, "/history?limit=200" + (cursor.empty() ? "" : "&cursor=" + cursor)));
    for (const json& item : page.value("items", json::array())) {
      SandboxEntry entry = EntryOf(item);
      if (api.tenant().empty() || entry.tenant == api.tenant()) all.push_back(std::move(entry));
    }
    cursor = PercentEncode(TextOf(page, "next"));
  } while (!cursor.empty());
  return all;
}

Result<std::string> ResolveId(Api& api, const std::string& given) {
  if (ValidSandboxId(given)) return given;
  ATOLL_ASSIGN(const auto all, FetchSandboxes(api, ""));
  const SandboxEntry* found = nullptr;
  const auto ambiguous = [&](const SandboxEntry& other) {
    return Fail(Code::kInvalidArgument, "'" + given + "' could be " + found->id + " or " +
                                            other.id + "; give more of the id");
  };
  for (const SandboxEntry& sandbox : all) {
    if (given.empty() || sandbox.name != given) continue;
    // An ended sandbox no longer owns its name. The list is newest first.
    if (found != nullptr && sandbox.HasEnded()) continue;
    if (found != nullptr && !found->HasEnded()) return ambiguous(sandbox);
    found = &sandbox;
  }
  if (found != nullptr) return found->id;
  for (const SandboxEntry& sandbox : all) {
    if (given.empty() || !sandbox.id.starts_with(given)) continue;
    if (found != nullptr) return ambiguous(sandbox);
    found = &sandbox;
  }
  if (found != nullptr) return found->id;
  Words known;
  for (const SandboxEntry& sandbox : all) known.push_back(sandbox.name);
  const std::string nearest = OfferNearest(given, known);
  return Fail(Code::kNotFound, "there is no sandbox '" + given + "'" +
                                   (nearest.empty() ? "; see: atoll ps -a" : nearest));
}

Result<std::string> ResolveIdOrGone(Api& api, const std::string& given) {
  auto id = ResolveId(api, given);
  if (id || id.error().code() != Code::kNotFound) return id;
  // The first error tells more than one about the history, which not every caller may read.
  const auto gone = FetchGone(api);
  if (!gone) return id;
  const SandboxEntry* found = nullptr;
  for (const SandboxEntry& sandbox : *gone) {
    if (sandbox.name == given) return sandbox.id;
    if (given.empty() || !sandbox.id.starts_with(given)) continue;
    if (found != nullptr) {
      return Fail(Code::kInvalidArgument, "'" + given + "' could be " + found->id + " or " +
                                              sandbox.id + "; give more of the id");
    }
    found = &sandbox;
  }
  if (found != nullptr) return found->id;
  return id;
}

Status ForEachSandbox(const Settings& settings, Api& api, const std::vector<std::string>& given,
                      const std::function<Status(const std::string& id)>& act) {
  Status last;
  for (const std::string& name : given) {
    const auto id = ResolveId(api, name);
    Status done = id ? act(*id) : Status(Fail(id.error()));
    if (done) continue;
    if (!last) Report(settings, last.error());
    last = std::move(done);
  }
  return last;
}

Result<ExecdWay> FindExecd(Api& api, const std::string& sandbox_id) {
  const std::string sandbox = "/sandboxes/" + PercentEncode(sandbox_id);
  ATOLL_ASSIGN(const json endpoint,
               Fetch(api, sandbox + "/endpoints/" + kExecdPort + "?use_server_proxy=true"));
  ExecdWay way{sandbox + "/proxy/" + kExecdPort, {}};
  const json fields = endpoint.value("headers", json::object());
  for (const auto& [name, value] : fields.items()) {
    if (value.is_string()) way.headers.Set(name, value.get<std::string>());
  }
  return way;
}

Result<http::Response> AskExecd(Api& api, const std::string& sandbox_id, const std::string& path,
                                const std::string& json_body) {
  ATOLL_ASSIGN(const ExecdWay way, FindExecd(api, sandbox_id));
  http::Client::Call call;
  call.target = way.base + path;
  call.headers = way.headers;
  if (!json_body.empty()) {
    call.method = "POST";
    call.headers.Set("Content-Type", "application/json");
    call.body = json_body;
  }
  return api.Send(std::move(call));
}

}  // namespace atl::cli
