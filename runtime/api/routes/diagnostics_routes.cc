// GET /sandboxes/{id}/diagnostics/{logs,events,inspect,summary}. With `scope`, logs and events are
// the stable API (a JSON descriptor with the text inside); without, the older plain texts.
// GET /events?after=N returns the events of all sandboxes, deleted ones included.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/api/gate/error_map.h"
#include "runtime/api/gate/json.h"
#include "runtime/api/gate/validation.h"
#include "runtime/api/routes/api.h"
#include "runtime/api/routes/diagnostics.h"
#include "runtime/api/routes/log_follow.h"
#include "runtime/http/query.h"

namespace atl::api {
namespace {

constexpr char kText[] = "text/plain; charset=utf-8";
constexpr int64_t kTail = 100;
constexpr int64_t kSummaryTail = 50;
constexpr int64_t kEvents = 50;
constexpr int64_t kSummaryEvents = 20;
constexpr size_t kEventsAtOnce = 500;

http::Response Text(std::string body, bool deprecated) {
  http::Response response;
  response.headers.Set("Content-Type", kText);
  if (deprecated) response.headers.Set("Deprecation", "true");
  response.body = std::move(body);
  return response;
}

ApiError NoSuchScope(const std::string& scope, const char* offered) {
  return {400, "DIAGNOSTICS_SCOPE_UNSUPPORTED",
          "scope '" + scope.substr(0, 64) + "' is not offered here; use " + offered};
}

http::Response Descriptor(const std::string& id, const char* kind, const std::string& scope,
                          const std::string& content, bool truncated, uint64_t missing) {
  nlohmann::json body = {{"sandboxId", id},
                         {"kind", kind},
                         {"scope", scope},
                         {"delivery", "inline"},
                         {"contentType", kText},
                         {"content", content},
                         {"contentLength", content.size()},
                         {"truncated", truncated}};
  if (missing > 0) {
    body["warnings"] = {std::to_string(missing) +
                        " bytes of output are missing: they are older than what is kept, or came "
                        "faster than they could be taken"};
  }
  return JsonResponse(200, body);
}

bool AsksForJson(std::string_view query) {
  const auto asked = http::ParseQuery(query);
  return std::find(asked.begin(), asked.end(),
                   std::pair<std::string, std::string>("format", "json")) != asked.end();
}

bool IsAlive(const sandbox::Sandbox* s) {
  return s != nullptr && !sandbox::IsOver(s->state);
}

}  // namespace

void Api::AddDiagnosticsRoutes() {
  router_.Add("GET", "/events", [this](const Call& call) { GetAllEvents(call); });
  router_.Add("GET", "/sandboxes/{sandbox_id}/diagnostics/logs",
              [this](const Call& call) { GetLogs(call); });
  router_.Add("GET", "/sandboxes/{sandbox_id}/diagnostics/events",
              [this](const Call& call) { GetEvents(call); });
  router_.Add("GET", "/sandboxes/{sandbox_id}/diagnostics/inspect",
              [this](const Call& call) { Inspect(call); });
  router_.Add("GET", "/sandboxes/{sandbox_id}/diagnostics/summary",
              [this](const Call& call) { Summarise(call); });
}

void Api::GetLogs(const Call& call) {
  const std::string& id = call.args[0];
  auto asked = ParseDiagnosticsQuery(call.request().query(), kEvents);
  if (!asked) return call.Respond(std::move(asked).error());
  const sandbox::Sandbox* found = parts_.sandboxes.registry.Find(call.caller(), id);
  // The log may outlive its sandbox.
  const std::string log = found != nullptr
                              ? HostId(*found)
                              : parts_.sandboxes.departures.RecentLogOf(call.caller(), id);
  if (log.empty()) return call.Respond(NoSuchSandbox(id));
  if (asked->scope && *asked->scope != "container" && *asked->scope != "all") {
    return call.Respond(NoSuchScope(*asked->scope, "container or all"));
  }
  if ((asked->follow || asked->whole) && !asked->scope) {
    sandbox::LogQuery query = AsLogQuery(*asked, 0);
    query.follow = true;
    const auto reader = std::make_shared<sandbox::LogReader>(query);
    auto stream = call.Stream(Text({}, true));
    if (!asked->follow) return SendLog(parts_.logs, log, reader, std::move(stream));
    return FollowLog(parts_.logs, log, IsAlive(found), reader, std::move(stream));
  }
  const auto reader = std::make_shared<sandbox::LogReader>(
      asked->scope ? sandbox::LogQuery() : AsLogQuery(*asked, kTail));
  parts_.logs.Read(log, reader, [call, reader, scope = asked->scope](std::string text) {
    if (scope) {
      return call.Respond(
          Descriptor(call.args[0], "logs", *scope, text, reader->truncated(), reader->missing()));
    }
    call.Respond(Text(text.empty() ? "(no logs)" : std::move(text), true));
  });
}

void Api::GetEvents(const Call& call) {
  const std::string& id = call.args[0];
  auto asked = ParseDiagnosticsQuery(call.request().query(), kEvents);
  if (!asked) return call.Respond(std::move(asked).error());
  const sandbox::Sandbox* found = parts_.sandboxes.registry.Find(call.caller(), id);
  if (found == nullptr) return call.Respond(NoSuchSandbox(id));
  const auto subject = Diagnose(*found);
  if (!subject) return call.Respond(MapError(subject.error(), Doing::kFind));
  if (!asked->scope) return call.Respond(Text(LegacyEventsText(*subject, asked->limit), true));
  const auto text = EventsText(*subject, *asked->scope);
  if (!text) return call.Respond(NoSuchScope(*asked->scope, "lifecycle, runtime or all"));
  call.Respond(Descriptor(id, "events", *asked->scope, *text, false, 0));
}

void Api::GetAllEvents(const Call& call) {
  const auto asked = http::ParseQuery(call.request().query());
  const auto after_text = std::find_if(asked.begin(), asked.end(),
                                       [](const auto& one) { return one.first == "after"; });
  const sandbox::EventFeed& feed = parts_.history.FeedOf(call.caller());
  int64_t after = static_cast<int64_t>(feed.last);
  Problems problems;
  if (after_text != asked.end()) {
    ParseInteger(after_text->second, {"query", "after"}, 0, INT64_MAX, &problems, &after);
  }
  if (!problems.empty()) return call.Respond(problems.ToResponse());
  // An event number in the future comes from an earlier daemon.
  uint64_t told = static_cast<uint64_t>(after) > feed.last ? 0 : static_cast<uint64_t>(after);
  const auto& recent = feed.recent;
  const bool missed = !recent.empty() && told + 1 < recent.front().number;
  nlohmann::json items = nlohmann::json::array();
  const auto first = std::find_if(recent.begin(), recent.end(),
                                  [&](const auto& one) { return one.number > told; });
  for (auto one = first; one != recent.end() && items.size() < kEventsAtOnce; ++one) {
    told = one->number;
    if (!call.caller().Sees(one->tenant)) continue;
    items.push_back({{"sandboxId", one->id}, {"event", EventLine(one->event)}});
  }
  call.Respond(
      JsonResponse(200, {{"items", std::move(items)}, {"last", told}, {"missed", missed}}));
}

void Api::Inspect(const Call& call) {
  const sandbox::Sandbox* found = parts_.sandboxes.registry.Find(call.caller(), call.args[0]);
  if (found == nullptr) return call.Respond(NoSuchSandbox(call.args[0]));
  const auto subject = Diagnose(*found);
  if (!subject) return call.Respond(MapError(subject.error(), Doing::kFind));
  call.Respond(AsksForJson(call.request().query()) ? JsonResponse(200, InspectJson(*subject))
                                                   : Text(InspectText(*subject), false));
}

void Api::Summarise(const Call& call) {
  auto asked = ParseDiagnosticsQuery(call.request().query(), kSummaryEvents);
  if (!asked) return call.Respond(std::move(asked).error());
  const std::string& id = call.args[0];
  if (parts_.sandboxes.registry.Find(call.caller(), id) == nullptr)
    return call.Respond(NoSuchSandbox(id));
  const auto reader = std::make_shared<sandbox::LogReader>(AsLogQuery(*asked, kSummaryTail));
  parts_.logs.Read(
      parts_.sandboxes.registry.HostIdOf(id), reader,
      [this, call, reader, limit = asked->limit](const std::string& logs) {
        // The sandbox may have been deleted while its log was read.
        const sandbox::Sandbox* found = parts_.sandboxes.registry.Find(call.caller(), call.args[0]);
        if (found == nullptr) return call.Respond(NoSuchSandbox(call.args[0]));
        const auto subject = Diagnose(*found);
        if (!subject) return call.Respond(MapError(subject.error(), Doing::kFind));
        call.Respond(Text(SummaryText(*subject, limit, logs.empty() ? "(no logs)" : logs), false));
      });
}

Result<DiagnosticsSubject> Api::Diagnose(const sandbox::Sandbox& found) {
  ATOLL_ASSIGN(auto history, parts_.history.Find(found.id));
  return DiagnosticsSubject{found, std::move(history),
                            parts_.sandboxes.registry.AddressesOf(found)};
}

}  // namespace atl::api
