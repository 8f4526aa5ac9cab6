// Formats a log for people: each line begins with the time of its first byte.
//
//   2026-03-25T10:01:13.123456Z text
//
// The lines of both streams come in the order in which they were finished. Bytes that are not UTF-8
// become U+FFFD. A line over kMaxLine is cut. Where output is missing, a line says how much.
//
// Thread rule: plain objects; they read files, which may block.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/sandbox/output/log_store.h"
#include "runtime/wire/output.h"

namespace atl::sandbox {

// Returns 2026-03-25T10:01:13.123456Z.
std::string FormatLogTime(int64_t unix_us);
// Appends `text` as valid UTF-8.
void AppendUtf8(std::string_view text, std::string* out);

// Joins lines that frames have split.
class OutputLines {
 public:
  static constexpr size_t kMaxLine = 16 << 10;
  // Receives a whole line as above, with its newline.
  using Sink = std::function<void(int64_t time_us, std::string line)>;

  // Ignores a frame that was taken already.
  void Take(const wire::OutputFrame& frame, const Sink& sink);
  // Emits the last, unterminated line. Call once, at the end of the output.
  void Finish(const Sink& sink);

  uint64_t next() const { return next_.value_or(0); }  // the next expected offset
  // Returns the number of missing bytes, from the beginning of the output to the last frame.
  uint64_t missing() const { return missing_; }

 private:
  struct Part {
    int64_t time_us = 0;
    std::string text;
  };
  void Miss(int64_t time_us, uint64_t bytes, const Sink& sink);

  Part parts_[2];  // stdout, stderr
  std::optional<uint64_t> next_;
  uint64_t missing_ = 0;
};

struct LogQuery {
  size_t tail = 0;             // only the last lines, so many; 0: all
  int64_t since_us = 0;        // only lines from this time on
  size_t max_bytes = 1 << 20;  // limit of the text; keeps its end; without follow, or with tail
  // Read will be called repeatedly. Each call returns a part and leaves an unterminated line for
  // the next call, or for Finish.
  bool follow = false;
};

class LogReader {
 public:
  explicit LogReader(const LogQuery& query) : query_(query) {}

  // The first call returns the requested text; later calls return what was added.
  std::string Read(const LogStore::Files& files);
  // Returns the unterminated line after the last Read.
  std::string Finish();

  // True if max_bytes has cut off lines.
  bool truncated() const { return truncated_; }
  uint64_t missing() const { return lines_.missing(); }
  // True if another Read would return more at once.
  bool more() const { return more_; }

 private:
  void ReadFiles(const LogStore::Files& files, bool whole, const OutputLines::Sink& sink);
  void ReadFile(int fd, bool whole, const OutputLines::Sink& sink);
  std::string ReadLast(const LogStore::Files& files);

  const LogQuery query_;
  OutputLines lines_;
  bool begun_ = false;
  bool truncated_ = false;
  bool more_ = false;
  size_t budget_ = 0;  // bytes of files, for one part
  // The position at which the next call continues; the inode identifies the file.
  uint64_t inode_ = 0;
  int64_t position_ = 0;
};

}  // namespace atl::sandbox
