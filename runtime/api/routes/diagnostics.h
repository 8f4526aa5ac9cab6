// Diagnostics as text. Every line with output of a sandbox begins with words of Atoll, so a sandbox
// cannot forge lines. Values whose name marks a secret are masked.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/api/gate/api_error.h"
#include "runtime/sandbox/output/log_reader.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/store/history.h"

namespace atl::api {

// The query of a diagnostics route.
struct DiagnosticsQuery {
  std::optional<std::string> scope;  // lower case; present: the stable API
  std::optional<int64_t> tail;       // number of log lines
  bool whole = false;                // tail=all: the whole kept log, of any length
  int64_t since_ms = 0;              // period before now; 0: all
  int64_t limit = 0;                 // number of events
  bool follow = false;
};
// "limit" and "event_limit" are the same parameter; `limit` is its default.
Parsed<DiagnosticsQuery> ParseDiagnosticsQuery(std::string_view query, int64_t limit);

// Returns which part of a log is asked for. `tail`: the default; 0: all lines.
sandbox::LogQuery AsLogQuery(const DiagnosticsQuery& asked, int64_t tail);

// Parses "90s", "10m", "2h" or "1d". Anything else is ten minutes, as in upstream.
int64_t ParseSince(std::string_view text);

struct DiagnosticsSubject {
  const sandbox::Sandbox& sandbox;
  std::vector<sandbox::HistoryEvent> history;
  std::vector<std::string> addresses;
};

// Returns the creation, from the sandbox's record, and the events of the history. If the history
// could not be written, the record's last transition replaces it.
std::vector<sandbox::HistoryEvent> AllEvents(const DiagnosticsSubject& subject);
// Returns "TIME SCOPE TYPE TEXT" without a newline.
std::string EventLine(const sandbox::HistoryEvent& event);
// Returns the events of one scope, one a line. Nothing: unknown scope.
std::optional<std::string> EventsText(const DiagnosticsSubject& subject, std::string_view scope);
// The texts of the legacy routes.
std::string LegacyEventsText(const DiagnosticsSubject& subject, int64_t limit);
std::string InspectText(const DiagnosticsSubject& subject);
// Returns the facts about a sandbox that GET /sandboxes/{id} does not show.
nlohmann::json InspectJson(const DiagnosticsSubject& subject);
std::string SummaryText(const DiagnosticsSubject& subject, int64_t limit, std::string_view logs);

}  // namespace atl::api
