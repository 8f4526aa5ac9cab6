#include "tools/atoll/client/event_stream.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/base/base64.h"
#include "runtime/base/json_text.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/words/event_lines.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

// execd's longest line has 4 MiB.
constexpr size_t kMaxEventLine = 8 << 20;

std::string OutputOf(const nlohmann::json& event) {
  if (const auto bytes = DecodeBase64(TextOf(event, "base64")); bytes && !bytes->empty()) {
    return *bytes;
  }
  // An execd from before an upgrade sends lines without their newline, and an empty line as its
  // newline.
  std::string text = TextOf(event, "text");
  if (text != "\n") text += '\n';
  return text;
}

// Decodes an output event in exactly the form that execd writes: `beginning`, base64, and the rest.
// It is not parsed as JSON, which is slow for a long stream; base64 needs no escapes. Nothing:
// another event.
std::optional<std::string> PlainOutput(std::string_view line, std::string_view beginning) {
  if (!line.starts_with(beginning)) return std::nullopt;
  line.remove_prefix(beginning.size());
  const size_t end = line.find('"');
  if (end == 0 || end == std::string_view::npos) return std::nullopt;
  return DecodeBase64(line.substr(0, end));
}

}  // namespace

bool EventStream::Feed(std::string_view bytes) {
  if (!FeedLines(&pending_, bytes, [this](std::string_view line) { return TakeLine(line); })) {
    return false;
  }
  if (pending_.size() > kMaxEventLine) {
    failure_ = "the sandbox sent a line over 8 MiB";
    return false;
  }
  // execd reports a failure after the start as a bare error object without a newline.
  if (!pending_.empty() && pending_.back() == '}') {
    const auto object = JsonOrNull(pending_);
    if (object.is_object() && !object.contains("type") && object.contains("message")) {
      failure_ = Printable(TextOf(object, "message"));
      return false;
    }
  }
  return true;
}

bool EventStream::TakeLine(std::string_view line) {
  for (const bool is_error : {false, true}) {
    const auto bytes = PlainOutput(
        line, is_error ? R"({"type":"stderr","base64":")" : R"({"type":"stdout","base64":")");
    if (bytes) return on_output_(*bytes, is_error);
  }
  const auto event = JsonOrNull(line);
  if (!event.is_object()) return true;
  const std::string type = TextOf(event, "type");
  if (type == "init") {
    command_id_ = TextOf(event, "text");
  } else if (type == "stdout" || type == "stderr") {
    return on_output_(OutputOf(event), type == "stderr");
  } else if (type == "execution_complete") {
    exit_ = Exit{};
    return false;
  } else if (type == "error") {
    const auto error = event.find("error");
    if (error == event.end() || !error->is_object()) {
      TakeError({}, {});
      return false;
    }
    const auto traceback = error->find("traceback");
    const bool told = traceback != error->end() && traceback->is_array() && !traceback->empty() &&
                      traceback->front().is_string();
    TakeError(TextOf(*error, "evalue"),
              told ? traceback->front().get<std::string>() : TextOf(*error, "ename"));
    return false;
  }
  return true;
}

void EventStream::TakeError(const std::string& value, const std::string& told) {
  int code = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), code);
  if (error == std::errc() && end == value.data() + value.size() && !value.empty()) {
    exit_ = ExitOf(code, told);
  } else {
    failure_ = Printable(value.empty() ? told : value);
  }
}

}  // namespace atl::cli
