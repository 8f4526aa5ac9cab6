#include "tools/atoll/client/code_stream.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/base64.h"
#include "runtime/base/json_text.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/words/event_lines.h"

namespace atl::cli {
namespace {

using nlohmann::json;

// A kernel's message has at most 32 MiB, and JSON escapes make it longer.
constexpr size_t kMaxCodeLine = 64 << 20;
constexpr std::pair<const char*, const char*> kPictures[] = {
    {"image/png", "png"}, {"image/jpeg", "jpeg"}, {"image/svg+xml", "svg"}};

std::string TracebackOf(const json& error) {
  std::string text;
  const auto lines = error.find("traceback");
  if (lines != error.end() && lines->is_array()) {
    for (const json& line : *lines) {
      if (line.is_string()) text += line.get<std::string>() + "\n";
    }
  }
  if (text.empty()) text = TextOf(error, "ename") + ": " + TextOf(error, "evalue") + "\n";
  return text;
}

}  // namespace

bool CodeStream::Feed(std::string_view bytes) {
  if (!FeedLines(&pending_, bytes, [this](std::string_view line) { return TakeLine(line); })) {
    return false;
  }
  return pending_.size() <= kMaxCodeLine;
}

bool CodeStream::TakeLine(std::string_view line) {
  const json event = JsonOrNull(line);
  if (!event.is_object()) return true;
  const std::string type = TextOf(event, "type");
  if (type == "stdout" || type == "stderr") {
    const auto bytes = DecodeBase64(TextOf(event, "base64"));
    return !bytes || callbacks_.on_text(*bytes, type == "stderr");
  }
  if (type == "result") {
    const json bundle = event.value("results", json::object());
    for (const auto& [form, kind] : kPictures) {
      const std::string content = TextOf(bundle, form);
      if (content.empty()) continue;
      if (std::string_view(kind) == "svg") return callbacks_.on_picture(kind, content);
      std::string plain;
      for (const char letter : content) {
        if (letter != '\n') plain.push_back(letter);
      }
      const auto bytes = DecodeBase64(plain);
      return !bytes || callbacks_.on_picture(kind, *bytes);
    }
    return callbacks_.on_text(TextOf(bundle, "text") + "\n", false);
  }
  if (type == "error") {
    failed_ = true;
    return callbacks_.on_text(TracebackOf(event.value("error", json::object())), true);
  }
  ended_ = type == "execution_complete";
  return !ended_;
}

std::string WithoutColours(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x1b' || i + 1 == text.size() || text[i + 1] != '[') {
      plain.push_back(text[i]);
      continue;
    }
    for (i += 2; i < text.size() && (text[i] < '@' || text[i] > '~'); ++i) {
    }
  }
  return plain;
}

bool WaitsForMore(std::string_view cell) {
  if (cell.ends_with('\n')) cell.remove_suffix(1);
  const std::string_view last = cell.substr(cell.rfind('\n') + 1);
  if (last.empty()) return false;
  const bool began = last.size() < cell.size();
  return began || std::string_view(":{([,\\").find(last.back()) != std::string_view::npos ||
         last.front() == '@';
}

}  // namespace atl::cli
