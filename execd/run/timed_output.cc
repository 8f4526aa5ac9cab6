#include "execd/run/timed_output.h"

#include <algorithm>

namespace atl::execd {
namespace {

// Times closer than this count as equal. Otherwise a program that writes byte by byte would have a
// mark for each byte.
constexpr int64_t kSameMomentUs = 1000;
// Limit on marks of 24 bytes. Beyond it the oldest bytes are dropped, however few they are.
constexpr size_t kMaxMarks = 2048;

}  // namespace

uint64_t TimedOutput::begin() const {
  return marks_.empty() ? bytes_.end() : std::max(bytes_.begin(), marks_.front().begin);
}

void TimedOutput::Append(OutputStream stream, int64_t time_us, std::string_view bytes) {
  if (bytes.empty()) return;
  const bool same = !marks_.empty() && marks_.back().stream == stream &&
                    time_us >= marks_.back().time_us &&
                    time_us - marks_.back().time_us < kSameMomentUs;
  if (!same) marks_.push_back({bytes_.end(), time_us, stream});
  bytes_.Append(bytes);
  const auto passed = [this] { return marks_.size() > 1 && marks_[1].begin <= bytes_.begin(); };
  while (marks_.size() > kMaxMarks || passed()) marks_.pop_front();
}

TimedOutput::Piece TimedOutput::Read(uint64_t offset, size_t limit) const {
  const auto after =
      std::upper_bound(marks_.begin(), marks_.end(), offset,
                       [](uint64_t at, const Mark& mark) { return at < mark.begin; });
  const uint64_t stop = after == marks_.end() ? bytes_.end() : after->begin;
  const Mark& mark = *std::prev(after);
  const auto size = static_cast<size_t>(std::min<uint64_t>(stop - offset, limit));
  return {mark.stream, mark.time_us, bytes_.Read(offset, size)};
}

std::string TimedOutput::All() const {
  constexpr size_t kAtOnce = 64 << 10;
  std::string all;
  for (uint64_t at = begin(); at < end();) {
    const Piece piece = Read(at, kAtOnce);
    at += piece.bytes.size();
    if (piece.stream != OutputStream::kNote) all += piece.bytes;
  }
  return all;
}

}  // namespace atl::execd
