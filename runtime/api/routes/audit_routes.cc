// The audit log: GET /audit, GET /audit/head, POST /audit/hash.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/api/gate/error_map.h"
#include "runtime/api/gate/json.h"
#include "runtime/api/routes/api.h"
#include "runtime/base/utc_time.h"
#include "runtime/http/query.h"
#include "runtime/tenants/audit/audit_line.h"
#include "runtime/tenants/audit/audit_search.h"

namespace atl::api {
namespace {

constexpr size_t kMaxLines = 1000;
constexpr size_t kMaxBytes = 2 << 20;
constexpr size_t kMaxHashed = 64 << 10;
// Header of an answer: the lines up to this one were looked at. The next request begins there.
constexpr char kNext[] = "Atoll-Audit-Next";
// Set to true if the log has lines behind it.
constexpr char kMore[] = "Atoll-Audit-More";

ApiError NoAudit() {
  return {404, "GENERAL::NOT_FOUND", "this daemon keeps no audit log (audit.enabled)"};
}

// Returns the time in the form of the lines.
bool ToLineTime(const std::string& text, std::string* time) {
  int64_t ms = 0;
  if (!ParseTime(text, &ms)) return false;
  *time = UtcTime(ms / 1000, ms % 1000 * 1'000'000, 6).text();
  return true;
}

struct AuditPage {
  audit::Query query;
  size_t limit = 100;
};

Parsed<AuditPage> ParseAuditPage(const http::Request& request) {
  AuditPage page;
  const auto wrong = [](const std::string& name, const char* use) {
    return Refuse(400, "GENERAL::INVALID_PARAMETER", "'" + name.substr(0, 40) + "': " + use);
  };
  for (const auto& [name, value] : http::ParseQuery(request.query())) {
    if (name == "since" || name == "until") {
      std::string& time = name == "since" ? page.query.since : page.query.until;
      if (!ToLineTime(value, &time)) return wrong(name, "use a time, 2026-11-28T05:00:00Z");
    } else if (name == "action") {
      page.query.action = value;
    } else if (name == "actor") {
      page.query.actor = value;
    } else if (name == "target") {
      page.query.target = value;
    } else if (name == "after" || name == "limit") {
      uint64_t number = 0;
      const auto read = std::from_chars(value.data(), value.data() + value.size(), number);
      const bool whole = read.ec == std::errc() && read.ptr == value.data() + value.size();
      if (!whole || (name == "limit" && (number == 0 || number > kMaxLines))) {
        return wrong(name, name == "limit" ? "use 1 to 1000" : "use the number of a line");
      }
      (name == "limit" ? page.limit : page.query.after) = number;
    } else {
      return wrong(name, "use since, until, action, actor, target, after or limit");
    }
  }
  if (const Status checked = audit::CheckQuery(page.query); !checked) {
    return Refuse(400, "GENERAL::INVALID_PARAMETER", checked.error().message());
  }
  return page;
}

}  // namespace

bool Api::BeginAudit(Call* call, const Rights& rights, std::string_view pattern) {
  const auto& auditor = parts_.auditor;
  if (!auditor || rights.action.empty() || auditor->LevelOf(rights.action) == audit::Level::kNone) {
    return true;
  }
  // A reader who follows the log would otherwise read of nothing but its own reading.
  if (rights.action == "audit.read" &&
      !auditor->IsFirstUse(call->caller().key_id, rights.action, {})) {
    return true;
  }
  const auto entry = std::make_shared<AuditEntry>(auditor, call->request(), call->request_id(),
                                                  rights.action, call->caller());
  const bool of_sandbox = pattern.find("/{sandbox_id}") != std::string_view::npos;
  const std::string_view kind =
      of_sandbox ? "sandbox" : rights.action.substr(0, rights.action.find('.'));
  if (!call->args.empty()) {
    entry->SetTarget(kind, call->args[0]);
    if (call->args.size() > 1)
      entry->AddFact(pattern.ends_with("{port}") ? "port" : "id", call->args[1]);
  } else if (const std::string name = call->Parameter("name"); !name.empty()) {
    entry->SetTarget(kind, name);
  }
  if (rights.action == "content.read") entry->OnlyForOthers();
  call->Audit(entry);
  if (auditor->log().MayAct() || !NeedsAudit(call->request().method, rights.action)) return true;
  call->Respond(AuditUnavailable());
  return false;
}

void Api::ReadAudit(const Call& call) {
  if (!parts_.auditor) return call.Respond(NoAudit());
  auto page = ParseAuditPage(call.request());
  if (!page) return call.Respond(std::move(page).error());
  // A developer reads the events of its own tenant.
  if (!call.caller().sees_all) page->query.tenant = call.caller().tenant;
  const std::optional<std::string> place = page->query.tenant;
  if (!audit_searches_.insert(place).second) {
    return call.Respond(ApiError{429, "SANDBOX::TOO_MANY", "the audit log is being searched", 1});
  }
  struct Found {
    std::string lines;
    size_t count = 0;
    uint64_t last = 0;  // the last line that was taken
    bool more = false;
    Result<uint64_t> looked_at = uint64_t{0};
  };
  const auto found = std::make_shared<Found>();
  auto search = [this, found, place, page = *page, call] {
    parts_.loop.RunBlocking(
        [found, page, directory = parts_.auditor->log().directory()] {
          found->looked_at =
              audit::Search(directory, page.query, [&found, &page](std::string_view line) {
                found->lines.append(line).push_back('\n');
                if (const auto parsed = audit::ParseLine(line)) found->last = parsed->seq;
                found->more = ++found->count >= page.limit || found->lines.size() >= kMaxBytes;
                return !found->more;
              });
        },
        [this, found, place, call] {
          EndAuditSearch(place);
          if (!found->looked_at) {
            return call.Respond(MapError(found->looked_at.error(), Doing::kReadAudit));
          }
          http::Response response;
          response.headers.Set("Content-Type", "application/x-ndjson");
          response.headers.Set("Cache-Control", "no-store");
          // A line that ends the search was not counted as looked at.
          const uint64_t next = std::max(*found->looked_at, found->last);
          response.headers.Set(kNext, std::to_string(next));
          if (found->more) response.headers.Set(kMore, "true");
          response.body = std::move(found->lines);
          call.Respond(std::move(response));
        });
  };
  if (!place) return search();
  tenant_searches_.push_back(std::move(search));
  if (tenant_searches_.size() == 1) tenant_searches_.front()();
}

void Api::EndAuditSearch(const std::optional<std::string>& place) {
  audit_searches_.erase(place);
  if (!place) return;
  tenant_searches_.pop_front();
  if (!tenant_searches_.empty()) tenant_searches_.front()();
}

void Api::AddAuditRoutes() {
  router_.Add("GET", "/audit", [this](const Call& call) { ReadAudit(call); });
  router_.Add("GET", "/audit/head", [this](const Call& call) {
    if (!parts_.auditor) return call.Respond(NoAudit());
    const audit::Head head = parts_.auditor->log().head();
    call.Respond(JsonResponse(200, {{"seq", head.seq},
                                    {"hash", head.hash},
                                    {"boot", parts_.auditor->log().boot()},
                                    {"writable", parts_.auditor->log().MayAct()}}));
  });
  // A POST, because a text in a URL would be in logs.
  router_.Add("POST", "/audit/hash", [this](const Call& call) {
    if (!parts_.auditor) return call.Respond(NoAudit());
    call.exchange().ReadBody(kMaxHashed, [this, call](Result<std::string> body) {
      if (!body) return call.Respond(MapError(body.error(), Doing::kReadBody));
      const auto parsed = ParseBody(*body);
      if (!parsed) return call.Respond(parsed.error());
      const auto text = parsed->is_object() ? parsed->find("text") : parsed->end();
      if (!parsed->is_object() || text == parsed->end() || !text->is_string()) {
        return call.Respond(
            ApiError{422, "GENERAL::INVALID_PARAMETER", "the body is {\"text\": \"…\"}"});
      }
      call.Respond(JsonResponse(200, {{"hmac", parts_.auditor->Hmac(text->get<std::string>())}}));
    });
  });
}

}  // namespace atl::api
