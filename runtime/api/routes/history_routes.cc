// The history: GET /history, /history/{id}, /history/{id}/logs. Extensions of the OpenSandbox API;
// upstream's routes answer 404 for a sandbox that is gone.
#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/api/gate/error_map.h"
#include "runtime/api/gate/json.h"
#include "runtime/api/routes/api.h"
#include "runtime/api/routes/diagnostics.h"
#include "runtime/api/routes/log_follow.h"
#include "runtime/api/routes/render.h"
#include "runtime/api/routes/usage_json.h"
#include "runtime/base/clock.h"
#include "runtime/http/ascii.h"
#include "runtime/http/query.h"

namespace atl::api {
namespace {

using nlohmann::json;

constexpr size_t kMostItems = 200;
// Records that one request reads, and their bytes, so that neither a filter that fits none nor
// large records hold up the loop. The record that exceeds the bytes is read, too.
constexpr size_t kMostLooked = 300;
constexpr size_t kMostLookedBytes = 256 << 10;

struct HistoryPage {
  sandbox::GoneStore::Query query;
  std::vector<std::string> states;  // lower case; empty: all
  std::vector<std::string> labels;  // KEY or KEY=VALUE; all must match
  size_t limit = 50;
  bool first = true;  // no cursor
};

bool ReadNumber(std::string_view text, int64_t* number) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && rest == text.data() + text.size() && *number >= 0;
}

bool ReadCursor(std::string_view text, sandbox::GoneStore::Query* query) {
  const size_t dash = text.find('-');
  return dash != std::string_view::npos && ReadNumber(text.substr(0, dash), &query->before_ms) &&
         ReadNumber(text.substr(dash + 1), &query->before_number) && query->before_ms > 0;
}

Parsed<HistoryPage> ParseHistoryPage(std::string_view query) {
  HistoryPage page;
  const auto wrong = [](const std::string& name, const char* use) {
    return Refuse(400, "GENERAL::INVALID_PARAMETER", "'" + name.substr(0, 40) + "': " + use);
  };
  for (auto& [name, value] : http::ParseQuery(query)) {
    if (name == "since" || name == "until") {
      int64_t& time = name == "since" ? page.query.since_ms : page.query.until_ms;
      if (!ParseTime(value, &time)) return wrong(name, "use a time, 2026-11-28T05:00:00Z");
    } else if (name == "state") {
      for (char& c : value) c = http::ToLower(c);
      page.states.push_back(value);
    } else if (name == "label") {
      page.labels.push_back(value);
    } else if (name == "limit") {
      int64_t number = 0;
      if (!ReadNumber(value, &number) || number == 0 || number > int64_t{kMostItems}) {
        return wrong(name, "use 1 to 200");
      }
      page.limit = static_cast<size_t>(number);
    } else if (name == "cursor") {
      if (!ReadCursor(value, &page.query)) return wrong(name, "use 'next' of the page before");
      page.first = false;
    } else if (name == "tenant") {
      page.query.tenant = value;
    } else {
      return wrong(name, "use since, until, state, label, limit or cursor");
    }
  }
  return page;
}

// Returns the bytes of the texts in a record, which is what reading it costs.
size_t SizeOf(const sandbox::Sandbox& sandbox) {
  size_t bytes = sandbox.message.size();
  for (const std::string& word : sandbox.spec.entrypoint) bytes += word.size();
  for (const auto* map : {&sandbox.spec.env, &sandbox.metadata}) {
    for (const auto& [name, value] : *map) bytes += name.size() + value.size();
  }
  return bytes;
}

bool HasLabel(const sandbox::Sandbox& sandbox, const std::string& wanted) {
  const size_t equals = wanted.find('=');
  const auto found = sandbox.metadata.find(wanted.substr(0, equals));
  if (found == sandbox.metadata.end()) return false;
  return equals == std::string::npos || found->second == wanted.substr(equals + 1);
}

bool Fits(const sandbox::GoneSandbox& gone, const HistoryPage& page) {
  std::string state(sandbox::StateName(gone.sandbox.state));
  for (char& c : state) c = http::ToLower(c);
  if (!page.states.empty() &&
      std::find(page.states.begin(), page.states.end(), state) == page.states.end()) {
    return false;
  }
  return std::all_of(page.labels.begin(), page.labels.end(),
                     [&](const auto& label) { return HasLabel(gone.sandbox, label); });
}

json GoneJson(const sandbox::GoneSandbox& gone) {
  json item = SandboxJson(gone.sandbox);
  item["goneAt"] = FormatTime(gone.gone_ms);
  return item;
}

// Makes the question of what these sandboxes have used. `since_ms`: when the first one was created.
tenants::UsageQuery QuestionOf(std::vector<std::string> ids, int64_t since_ms) {
  return {.since_ms = since_ms,
          .until_ms = SystemClock().UnixMillis(),
          .by = tenants::UsageQuery::By::kSandbox,
          .label = {},
          .owner = {},
          .sandboxes = std::move(ids)};
}

json GoneUsageJson(const tenants::Amounts& used, const Prices& prices) {
  json usage = UsageJson(used, prices);
  if (!prices.currency.empty()) usage["currency"] = prices.currency;
  return usage;
}

}  // namespace

void Api::AddHistoryRoutes() {
  router_.Add("GET", "/history", [this](const Call& call) { ListHistory(call); });
  router_.Add("GET", "/history/{sandbox_id}", [this](const Call& call) { GetHistory(call); });
  router_.Add("GET", "/history/{sandbox_id}/logs",
              [this](const Call& call) { GetHistoryLogs(call); });
}

void Api::ListHistory(const Call& call) {
  auto page = ParseHistoryPage(call.request().query());
  if (!page) return call.Respond(std::move(page).error());
  const tenants::Caller& caller = call.caller();
  // A tenant's own parameter is ignored, as everywhere.
  if (!caller.sees_all) page->query.tenant = caller.tenant;
  json items = json::array();
  int64_t oldest_ms = SystemClock().UnixMillis();
  const auto take = [&](const sandbox::GoneSandbox& gone) {
    items.push_back(GoneJson(gone));
    oldest_ms = std::min(oldest_ms, gone.sandbox.created_at_ms);
  };
  if (page->first) {
    // These have no place in the store yet, so all of them are on the first page.
    for (const sandbox::GoneSandbox& gone : parts_.sandboxes.departures.Leaving(caller)) {
      const bool within =
          gone.gone_ms >= page->query.since_ms && gone.gone_ms < page->query.until_ms;
      const bool asked = !page->query.tenant || gone.sandbox.tenant == *page->query.tenant;
      if (within && asked && Fits(gone, *page)) take(gone);
    }
  }
  size_t looked = 0;
  size_t looked_bytes = 0;
  std::string cursor;
  std::string next;
  const Status visited =
      parts_.sandboxes.departures.store().Visit(page->query, [&](const sandbox::GoneSandbox& gone) {
        if (looked == kMostLooked || looked_bytes >= kMostLookedBytes ||
            items.size() >= page->limit) {
          next = cursor;
          return false;
        }
        ++looked;
        looked_bytes += SizeOf(gone.sandbox);
        cursor = std::to_string(gone.gone_ms) + "-" + std::to_string(gone.number);
        if (Fits(gone, *page)) take(gone);
        return true;
      });
  if (!visited) return call.Respond(MapError(visited.error(), Doing::kFind));
  json body = {{"items", std::move(items)}};
  if (!next.empty()) body["next"] = next;
  if (!parts_.sandboxes.meter.on() || body["items"].empty()) {
    return call.Respond(JsonResponse(200, body));
  }
  std::vector<std::string> ids;
  for (const json& item : body["items"]) ids.push_back(item["id"]);
  tenants::UsageQuery query = QuestionOf(std::move(ids), oldest_ms);
  query.owner = page->query.tenant;
  parts_.sandboxes.meter.Query(std::move(query), [this, call, body](const auto& answer) mutable {
    if (!answer) return call.Respond(MapError(answer.error(), Doing::kUsage));
    std::map<std::string, const tenants::Amounts*> used;
    for (const tenants::UsageRow& row : answer->rows) used[row.key] = &row.amounts;
    for (json& item : body["items"]) {
      const auto found = used.find(item["id"]);
      if (found != used.end()) item["usage"] = GoneUsageJson(*found->second, config_.prices);
    }
    call.Respond(JsonResponse(200, body));
  });
}

void Api::GetHistory(const Call& call) {
  const std::string& id = call.args[0];
  const auto gone = parts_.sandboxes.departures.Find(call.caller(), id);
  if (!gone) return call.Respond(MapError(gone.error(), Doing::kFind));
  if (!*gone) return call.Respond(NoSuchSandbox(id));
  const sandbox::Sandbox& sandbox = (*gone)->sandbox;
  auto events = parts_.history.Find(id);
  if (!events) return call.Respond(MapError(events.error(), Doing::kFind));
  const DiagnosticsSubject subject{sandbox, *std::move(events), {}};
  json body = InspectJson(subject);
  // Facts of a sandbox that is there.
  for (const char* name : {"addresses", "volumes", "pauseMemory"}) body.erase(name);
  body.update(GoneJson(**gone));
  body["env"] = json::array();
  for (const auto& [name, value] : sandbox.spec.env) body["env"].push_back(name);
  body["events"] = json::array();
  for (const sandbox::HistoryEvent& event : AllEvents(subject)) {
    body["events"].push_back(EventLine(event));
  }
  body["denials"] = DenialsJson(sandbox.denials);
  if (!parts_.sandboxes.meter.on()) return call.Respond(JsonResponse(200, body));
  tenants::UsageQuery query = QuestionOf({id}, sandbox.created_at_ms);
  query.owner = sandbox.tenant;
  parts_.sandboxes.meter.Query(std::move(query), [this, call, body](const auto& answer) mutable {
    if (!answer) return call.Respond(MapError(answer.error(), Doing::kUsage));
    // The ledger does not know a sandbox that went before metering was turned on.
    if (!answer->rows.empty()) {
      body["usage"] = GoneUsageJson(answer->rows.front().amounts, config_.prices);
      body["usage"]["complete"] = answer->complete;
    }
    call.Respond(JsonResponse(200, body));
  });
}

void Api::GetHistoryLogs(const Call& call) {
  const std::string& id = call.args[0];
  const auto asked = ParseDiagnosticsQuery(call.request().query(), 1);
  if (!asked) return call.Respond(asked.error());
  const auto gone = parts_.sandboxes.departures.Find(call.caller(), id);
  if (!gone) return call.Respond(MapError(gone.error(), Doing::kFind));
  if (!*gone) return call.Respond(NoSuchSandbox(id));
  http::Response response;
  response.headers.Set("Content-Type", "text/plain; charset=utf-8");
  sandbox::LogQuery query = AsLogQuery(*asked, 0);
  query.follow = true;
  const auto reader = std::make_shared<sandbox::LogReader>(query);
  SendLog(parts_.logs, (*gone)->log, reader, call.Stream(std::move(response)));
}

}  // namespace atl::api
