#include "execd/run/output_events.h"

#include <algorithm>

#include "execd/http/json.h"
#include "execd/run/events.h"
#include "runtime/base/base64.h"
#include "runtime/base/utf8.h"

namespace atl::execd {
namespace {

// Largest size of one byte of text in JSON: \u0001.
constexpr size_t kMostForAByte = 6;
constexpr size_t kLongestCharacter = 4;

bool Continues(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

// Returns the longest prefix of at most `limit` bytes that ends between two characters.
std::string_view Beginning(std::string_view text, size_t limit) {
  if (limit >= text.size()) return text;
  size_t cut = limit;
  while (cut > 0 && limit - cut < kLongestCharacter - 1 && Continues(text[cut])) --cut;
  return text.substr(0, cut == 0 || Continues(text[cut]) ? limit : cut);
}

}  // namespace

Result<OutputForm> ParseOutputForm(const std::string* encoding, OutputForm text) {
  if (!encoding) return text;
  if (*encoding == "base64") return OutputForm::kBytes;
  return Fail(Code::kInvalidArgument,
              "encoding '" + *encoding + "': only 'base64' is known; without it events carry text");
}

void AppendOutput(std::string* out, std::string_view type, std::string_view text, OutputForm form,
                  int64_t unix_ms) {
  const bool bytes = form == OutputForm::kBytes;
  const size_t limit = OutputEvents::kMaxEvent / kMostForAByte;
  while (!text.empty()) {
    const std::string_view piece = Beginning(text, limit);
    BeginEvent(out, type, bytes ? "base64" : "text");
    if (bytes) {
      out->append(EncodeBase64(piece));
    } else {
      AppendJsonText(out, piece);
    }
    EndTextEvent(out, unix_ms);
    text.remove_prefix(piece.size());
  }
}

size_t OutputEvents::g_held = 0;

void OutputEvents::Append(std::string_view bytes, int64_t unix_ms, std::string* out) {
  if (bytes.empty()) return;
  if (form_ == OutputForm::kBytes) {
    BeginEvent(out, type_, "base64");
    out->append(EncodeBase64(bytes));
    EndTextEvent(out, unix_ms);
    return;
  }
  if (character_.empty()) {
    AppendText(bytes, unix_ms, out);
  } else {
    std::string joined;
    joined.swap(character_);
    joined.append(bytes);
    AppendText(joined, unix_ms, out);
  }
  Hold(event_.size());
}

void OutputEvents::AppendText(std::string_view bytes, int64_t unix_ms, std::string* out) {
  while (!bytes.empty()) {
    // A line that ended with \r was sent at once. If a \n follows, it is sent alone.
    const bool second_half = ended_with_return_ && bytes.front() == '\n';
    ended_with_return_ = false;
    if (second_half && form_ == OutputForm::kLines) {
      bytes.remove_prefix(1);
      continue;
    }
    const size_t newline = std::min(bytes.find('\n'), bytes.size());
    const size_t end = std::min(bytes.substr(0, newline).find('\r'), newline);
    const bool terminated = end < bytes.size();
    size_t next = end;
    if (terminated) next += bytes.substr(end).starts_with("\r\n") ? 2 : 1;
    std::string_view line = bytes.substr(0, form_ == OutputForm::kText ? next : end);
    ended_with_return_ = next == bytes.size() && bytes.back() == '\r';
    bytes.remove_prefix(next);
    if (!terminated) {
      const size_t unfinished = UnfinishedUtf8(line);
      character_ = line.substr(line.size() - unfinished);
      line.remove_suffix(unfinished);
    }
    AppendPiece(line, unix_ms, out);
    if (terminated) Finish(unix_ms, out);
  }
}

void OutputEvents::AppendPiece(std::string_view piece, int64_t unix_ms, std::string* out) {
  while (!piece.empty()) {
    const size_t others = g_held - held_;
    const size_t limit = others + event_.size() > kMaxHeld ? kMinEvent : kMaxEvent;
    if (event_.size() + kLongestCharacter * kMostForAByte > limit) {
      Finish(unix_ms, out);
      continue;
    }
    if (event_.empty()) BeginEvent(&event_, type_, "text");
    const std::string_view now = Beginning(piece, (limit - event_.size()) / kMostForAByte);
    AppendJsonText(&event_, now);
    piece.remove_prefix(now.size());
  }
}

void OutputEvents::Finish(int64_t unix_ms, std::string* out) {
  if (event_.empty()) return;
  EndTextEvent(&event_, unix_ms);
  if (out->empty()) {
    out->swap(event_);
  } else {
    out->append(event_);
  }
  event_.clear();
  if (event_.capacity() > kMinEvent) event_.shrink_to_fit();
  Hold(0);
}

void OutputEvents::End(int64_t unix_ms, std::string* out, std::string_view warning) {
  std::string rest;
  rest.swap(character_);
  AppendPiece(rest, unix_ms, out);
  Finish(unix_ms, out);
  if (!warning.empty()) Append("[" + std::string(warning) + "]\n", unix_ms, out);
}

void OutputEvents::Discard() {
  std::string().swap(event_);
  character_.clear();
  Hold(0);
}

void OutputEvents::Hold(size_t size) {
  g_held += size - held_;
  held_ = size;
}

}  // namespace atl::execd
