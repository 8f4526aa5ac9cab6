#include "execd/events.h"

#include <algorithm>

#include "execd/json.h"

namespace atl::execd {
namespace {

void AppendTimestamp(std::string* out, int64_t unix_ms) {
  out->append(",\"timestamp\":");
  AppendJsonInteger(out, unix_ms);
}

// How much of `text` to take so that at most `limit` bytes go and no UTF-8 sequence is torn.
size_t CutBefore(std::string_view text, size_t limit) {
  size_t cut = limit;
  while (cut > limit - 4 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  return cut > limit - 4 ? cut : limit;
}

}  // namespace

void AppendTextEvent(std::string* out, std::string_view type, std::string_view text,
                     int64_t unix_ms) {
  out->append("{\"type\":\"").append(type).append("\"");
  if (!text.empty()) {
    out->append(",\"text\":");
    AppendJsonString(out, text);
  }
  AppendTimestamp(out, unix_ms);
  out->append("}\n\n");
}

void AppendCompleteEvent(std::string* out, int64_t took_ms, int64_t unix_ms) {
  out->append("{\"type\":\"execution_complete\"");
  // Zero members are left out, as by upstream.
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

bool LineSplitter::Next(std::string_view* bytes, std::string_view* line) {
  if (skip_newline_ && !bytes->empty()) {
    skip_newline_ = false;
    if (bytes->front() == '\n') bytes->remove_prefix(1);
  }
  if (bytes->empty()) return false;
  size_t end = std::min(bytes->find('\n'), bytes->size());
  end = std::min(bytes->substr(0, end).find('\r'), end);
  const size_t room = kMaxLine - partial_.size();
  if (end > room || (end == bytes->size() && end == room)) {
    const size_t cut = end > room && room >= 4 ? CutBefore(*bytes, room) : room;
    joined_.swap(partial_);
    partial_.clear();
    joined_.append(bytes->substr(0, cut));
    bytes->remove_prefix(cut);
    *line = joined_;
    return true;
  }
  if (end == bytes->size()) {
    partial_.append(*bytes);
    *bytes = {};
    return false;
  }
  skip_newline_ = (*bytes)[end] == '\r';
  *line = bytes->substr(0, end);
  bytes->remove_prefix(end + 1);
  if (!partial_.empty()) {
    joined_.swap(partial_);
    partial_.clear();
    joined_.append(*line);
    *line = joined_;
  }
  if (line->empty()) *line = "\n";
  return true;
}

}  // namespace atl::execd
