// A log as people read it: lines with the time of their first byte.
//
//   2026-03-25T10:01:13.123456Z text
//
// The lines of both streams in the order in which they were finished. Bytes that are no UTF-8
// become U+FFFD, a line over kMaxLine is cut, and where output is missing a line says how much.
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

// 2026-03-25T10:01:13.123456Z
std::string FormatLogTime(int64_t unix_us);
// `text` as UTF-8.
void AppendUtf8(std::string_view text, std::string* out);

// Puts the lines together that frames have torn apart.
class OutputLines {
 public:
  static constexpr size_t kMaxLine = 16 << 10;
  // A whole line as above, with its newline.
  using Sink = std::function<void(int64_t time_us, std::string line)>;

  // A frame that was taken already is ignored.
  void Take(const wire::OutputFrame& frame, const Sink& sink);
  // What has not been ended by a newline.
  void Finish(const Sink& sink);

  uint64_t next() const { return next_.value_or(0); }  // offset
  // Bytes that were not there, from the beginning of the output to the last frame.
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
  size_t tail = 0;             // the last so many lines; 0: all
  int64_t since_us = 0;        // lines from this moment on
  size_t max_bytes = 1 << 20;  // of text, of more the last; without follow, or with tail
  // Read will be called again: it gives a part at a time, and what no newline has ended yet is left
  // for then, or for Finish.
  bool follow = false;
};

class LogReader {
 public:
  explicit LogReader(const LogQuery& query) : query_(query) {}

  // The first call: the text that was asked for. Later ones: what has come since.
  std::string Read(const LogStore::Files& files);
  // What no newline has ended, after the last Read.
  std::string Finish();

  // Lines were left out because of max_bytes.
  bool truncated() const { return truncated_; }
  uint64_t missing() const { return lines_.missing(); }
  // There is more to read at once.
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
  // Where the next call goes on: the file by its inode.
  uint64_t inode_ = 0;
  int64_t position_ = 0;
};

}  // namespace atl::sandbox
