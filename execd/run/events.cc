#include "execd/run/events.h"

#include "execd/http/json.h"

namespace atl::execd {
namespace {

void AppendTimestamp(std::string* out, int64_t unix_ms) {
  out->append(",\"timestamp\":");
  AppendJsonInteger(out, unix_ms);
}

}  // namespace

void BeginEvent(std::string* out, std::string_view type, std::string_view member) {
  out->append("{\"type\":\"").append(type).append("\",\"").append(member).append("\":\"");
}

void EndTextEvent(std::string* out, int64_t unix_ms) {
  out->push_back('"');
  AppendTimestamp(out, unix_ms);
  out->append("}\n\n");
}

void AppendTextEvent(std::string* out, std::string_view type, std::string_view text,
                     int64_t unix_ms) {
  BeginEvent(out, type, "text");
  AppendJsonText(out, text);
  EndTextEvent(out, unix_ms);
}

void AppendCompleteEvent(std::string* out, int64_t took_ms, int64_t unix_ms) {
  out->append("{\"type\":\"execution_complete\"");
  // Members that are zero are omitted, as in upstream.
  if (took_ms > 0) {
    out->append(",\"execution_time\":");
    AppendJsonInteger(out, took_ms);
  }
  AppendTimestamp(out, unix_ms);
  out->append("}\n\n");
}

void AppendCommandError(std::string* out, std::string_view value, std::string_view traceback,
                        int64_t unix_ms) {
  out->append("{\"type\":\"error\"");
  AppendTimestamp(out, unix_ms);
  out->append(",\"error\":{\"ename\":\"CommandExecError\",\"evalue\":");
  AppendJsonString(out, value);
  out->append(",\"traceback\":[");
  AppendJsonString(out, traceback);
  out->append("]}}\n\n");
}

const HeaderList& EventStreamHeaders() {
  static const HeaderList headers = {{"Content-Type", "text/event-stream"},
                                     {"Cache-Control", "no-cache"},
                                     {"Connection", "keep-alive"},
                                     {"X-Accel-Buffering", "no"}};
  return headers;
}

}  // namespace atl::execd
