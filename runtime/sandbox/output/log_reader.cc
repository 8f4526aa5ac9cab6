#include "runtime/sandbox/output/log_reader.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "runtime/base/utc_time.h"
#include "runtime/base/utf8.h"

namespace atl::sandbox {
namespace {

// Size of one part for a follower: short lines become text of fifteen times the size, which the
// daemon holds for a slow client.
constexpr size_t kStep = 32 << 10;
static_assert(kStep > wire::kMaxOutputFrame);
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

std::string Line(int64_t time_us, std::string_view text) {
  std::string line = FormatLogTime(time_us);
  line.push_back(' ');
  AppendUtf8(text, &line);
  line.push_back('\n');
  return line;
}

}  // namespace

std::string FormatLogTime(int64_t unix_us) {
  return std::string(UtcTime(unix_us / 1'000'000, unix_us % 1'000'000 * 1000, 6).text());
}

void AppendUtf8(std::string_view text, std::string* out) {
  while (!text.empty()) {
    const size_t length = FirstUtf8(text).length;
    out->append(length == 0 ? kReplacement : text.substr(0, length));
    text.remove_prefix(std::max<size_t>(length, 1));
  }
}

void OutputLines::Miss(int64_t time_us, uint64_t bytes, const Sink& sink) {
  missing_ += bytes;
  // A line that began before the gap does not continue after it.
  Finish(sink);
  sink(time_us, Line(time_us, "[" + std::to_string(bytes) + " bytes of output are missing here]"));
}

void OutputLines::Take(const wire::OutputFrame& frame, const Sink& sink) {
  const uint64_t expected = next_.value_or(0);
  if (next_ && frame.offset < expected) return;
  next_ = frame.end();
  const bool is_lost = frame.kind == wire::OutputFrame::Kind::kLost;
  const uint64_t hole = frame.offset - expected + (is_lost ? frame.lost : 0);
  if (hole > 0) Miss(frame.time_us, hole, sink);
  if (is_lost || frame.kind == wire::OutputFrame::Kind::kNote) return;
  Part& part = parts_[frame.kind == wire::OutputFrame::Kind::kStderr ? 1 : 0];
  std::string_view rest = frame.bytes;
  while (!rest.empty()) {
    if (part.text.empty()) part.time_us = frame.time_us;
    const size_t room = kMaxLine - part.text.size();
    const size_t newline = rest.substr(0, room + 1).find('\n');
    const bool ends = newline != std::string_view::npos;
    const size_t size = ends ? newline : std::min(room, rest.size());
    part.text.append(rest.substr(0, size));
    rest.remove_prefix(ends ? size + 1 : size);
    if (ends || part.text.size() == kMaxLine) {
      sink(part.time_us, Line(part.time_us, part.text));
      part.text.clear();
    }
  }
}

void OutputLines::Finish(const Sink& sink) {
  for (Part& part : parts_) {
    if (part.text.empty()) continue;
    sink(part.time_us, Line(part.time_us, part.text));
    part.text = std::string();
  }
}

std::string LogReader::Read(const LogStore::Files& files) {
  const bool first = !std::exchange(begun_, true);
  if (!query_.follow || (first && query_.tail > 0)) return ReadLast(files);
  std::string text;
  ReadFiles(files, false, [&](int64_t time_us, const std::string& line) {
    if (time_us >= query_.since_us) text += line;
  });
  return text;
}

std::string LogReader::ReadLast(const LogStore::Files& files) {
  std::deque<std::string> lines;
  size_t bytes = 0;
  const auto sink = [&](int64_t time_us, std::string line) {
    if (time_us < query_.since_us) return;
    bytes += line.size();
    lines.push_back(std::move(line));
    for (;;) {
      const bool too_many = query_.tail > 0 && lines.size() > query_.tail;
      const bool too_large = bytes > query_.max_bytes && lines.size() > 1;
      if (!too_many && !too_large) return;
      truncated_ = truncated_ || !too_many;
      bytes -= lines.front().size();
      lines.pop_front();
    }
  };
  ReadFiles(files, true, sink);
  if (!query_.follow) lines_.Finish(sink);
  std::string text;
  text.reserve(bytes);
  for (const std::string& line : lines) text += line;
  return text;
}

void LogReader::ReadFiles(const LogStore::Files& files, bool whole, const OutputLines::Sink& sink) {
  more_ = false;
  budget_ = kStep;
  // Files older than the one with the saved position have been read.
  size_t from = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    struct stat info {};
    if (inode_ != 0 && ::fstat(files[i].get(), &info) == 0 && info.st_ino == inode_) from = i;
  }
  for (size_t i = from; i < files.size() && !more_; ++i) ReadFile(files[i].get(), whole, sink);
}

void LogReader::ReadFile(int fd, bool whole, const OutputLines::Sink& sink) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return;
  // A shorter file was truncated after a failed write. The lines ignore frames that they have seen
  // already.
  if (info.st_ino != inode_ || info.st_size < position_) position_ = 0;
  inode_ = info.st_ino;
  const int64_t before_all = position_;
  wire::OutputFrames frames;
  char chunk[kStep];
  for (;;) {
    const ssize_t n =
        ::pread(fd, chunk, sizeof chunk, position_ + static_cast<off_t>(frames.pending()));
    if (n <= 0) return;
    const size_t before = frames.pending();
    frames.Append({chunk, static_cast<size_t>(n)});
    auto frame = frames.Next();
    for (; frame && *frame; frame = frames.Next()) lines_.Take(**frame, sink);
    if (!frame) {
      position_ = 0;
      return;
    }
    position_ += static_cast<int64_t>(before + static_cast<size_t>(n) - frames.pending());
    if (whole) continue;
    budget_ -= std::min(budget_, static_cast<size_t>(n));
    // Each call advances by at least one piece. The next call reads a pending partial frame again.
    if (budget_ == 0 && position_ > before_all) {
      more_ = true;
      return;
    }
  }
}

std::string LogReader::Finish() {
  std::string text;
  lines_.Finish([&](int64_t time_us, const std::string& line) {
    if (time_us >= query_.since_us) text += line;
  });
  return text;
}

}  // namespace atl::sandbox
