#include "execd/line_splitter.h"

#include <algorithm>

namespace atl::execd {
namespace {

// How much of `text` to take so that at most `limit` bytes go and no UTF-8 sequence is torn.
size_t CutBefore(std::string_view text, size_t limit) {
  size_t cut = limit;
  while (cut > limit - 4 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  return cut > limit - 4 ? cut : limit;
}

}  // namespace

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
