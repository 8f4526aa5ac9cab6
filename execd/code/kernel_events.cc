#include "execd/code/kernel_events.h"

#include "execd/run/events.h"

namespace atl::execd {
namespace {

// Appends {"type":…,"timestamp":…,"MEMBER": to which the caller adds the value and the end.
void BeginObject(std::string* out, std::string_view type, std::string_view member,
                 int64_t unix_ms) {
  out->append("{\"type\":\"").append(type).append("\",\"timestamp\":");
  AppendJsonInteger(out, unix_ms);
  out->append(",\"").append(member).append("\":");
}

void AppendResult(std::string* out, const JsonValue& bundle, int64_t unix_ms) {
  BeginObject(out, "result", "results", unix_ms);
  char before = '{';
  const JsonValue first = bundle.is(JsonType::kObject) ? bundle.first() : JsonValue();
  for (JsonValue item = first; item.present(); item = item.next()) {
    out->push_back(before);
    before = ',';
    AppendJsonString(out, item.name() == "text/plain" ? "text" : item.name());
    out->push_back(':');
    AppendJsonValue(out, item);
  }
  if (before == '{') out->push_back('{');
  out->append("}}\n\n");
}

}  // namespace

void AppendKernelError(std::string* out, const JsonValue& content, int64_t unix_ms) {
  AppendTextEvent(out, "status", "error", unix_ms);
  BeginObject(out, "error", "error", unix_ms);
  // tslab's error has no name; tslab prints the error instead. Clients expect a name.
  const std::string_view name = content.Find("ename").text();
  out->append("{\"ename\":");
  AppendJsonString(out, name.empty() ? "Error" : name);
  out->append(",\"evalue\":");
  AppendJsonString(out, content.Find("evalue").text());
  out->append(",\"traceback\":[");
  const JsonValue traceback = content.Find("traceback");
  const JsonValue first = traceback.is(JsonType::kArray) ? traceback.first() : JsonValue();
  for (JsonValue line = first; line.present(); line = line.next()) {
    if (out->back() != '[') out->push_back(',');
    AppendJsonString(out, line.text());
  }
  out->append("]}}\n\n");
}

void AppendKernelEvents(std::string* out, const KernelMessage& message, OutputForm form,
                        int64_t unix_ms) {
  const JsonValue content = message.content.root();
  if (message.type == "stream") {
    const bool is_error = content.Find("name").text() == "stderr";
    AppendOutput(out, is_error ? "stderr" : "stdout", content.Find("text").text(), form, unix_ms);
  } else if (message.type == "execute_result") {
    BeginObject(out, "execution_count", "execution_count", unix_ms);
    AppendJsonInteger(out, content.Find("execution_count").integer());
    out->append("}\n\n");
    AppendResult(out, content.Find("data"), unix_ms);
  } else if (message.type == "display_data" || message.type == "update_display_data") {
    AppendResult(out, content.Find("data"), unix_ms);
  } else if (message.type == "error") {
    AppendKernelError(out, content, unix_ms);
  }
}

void AppendErrorEvent(std::string* out, std::string_view name, std::string_view value,
                      int64_t unix_ms) {
  BeginObject(out, "error", "error", unix_ms);
  out->append("{\"ename\":");
  AppendJsonString(out, name);
  out->append(",\"evalue\":");
  AppendJsonString(out, value);
  out->append(",\"traceback\":[");
  AppendJsonString(out, value);
  out->append("]}}\n\n");
}

}  // namespace atl::execd
