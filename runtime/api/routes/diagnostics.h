// Diagnostics as text. What a sandbox says appears on lines that begin with our words, and a secret
// in none: values whose names tell that they are one are masked.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/api/gate/api_error.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/store/history.h"

namespace atl::api {

// What the query of a diagnostics route asks for.
struct DiagnosticsQuery {
  std::optional<std::string> scope;  // in lower case; present: the stable API
  std::optional<int64_t> tail;       // lines of the log
  bool whole = false;                // tail=all: the log as far as it is kept, of any length
  int64_t since_ms = 0;              // length of time before now; 0: all
  int64_t limit = 0;                 // events
  bool follow = false;
};
// "limit" and "event_limit" are one; `limit` is its default.
Parsed<DiagnosticsQuery> ParseDiagnosticsQuery(std::string_view query, int64_t limit);

// "90s", "10m", "2h", "1d"; anything else is ten minutes, as upstream has it.
int64_t ParseSince(std::string_view text);

struct DiagnosticsSubject {
  const sandbox::Sandbox& sandbox;
  std::vector<sandbox::HistoryEvent> history;
  std::vector<std::string> addresses;
};

// "TIME SCOPE TYPE TEXT", without the end of the line.
std::string EventLine(const sandbox::HistoryEvent& event);
// The events of one scope, one a line. Nothing: there is no such scope.
std::optional<std::string> EventsText(const DiagnosticsSubject& subject, std::string_view scope);
// The legacy texts.
std::string LegacyEventsText(const DiagnosticsSubject& subject, int64_t limit);
std::string InspectText(const DiagnosticsSubject& subject);
// What a sandbox has beside what GET /sandboxes/{id} tells.
nlohmann::json InspectJson(const DiagnosticsSubject& subject);
std::string SummaryText(const DiagnosticsSubject& subject, int64_t limit, std::string_view logs);

}  // namespace atl::api
