// The files of the audit log: 000001.jsonl, 000002.jsonl, … in one directory. The last one grows.
// Earlier ones are compressed (000001.jsonl.zst).
//
// Thread rule: plain objects; files may be read by any thread and process while the log grows.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::audit {

// The group of the directory (adm) may read.
inline constexpr mode_t kFileMode = 0640;
// Gives a file that mode, of which the daemon's umask has taken the group's part.
Status ShowToGroup(int file);

struct LogFile {
  uint64_t index = 0;
  bool compressed = false;
  uint64_t size = 0;   // bytes on disk
  int64_t unix_s = 0;  // time of the last change
  std::string Name() const;
};

// Returns the files in order. Other names in the directory are ignored. A file that is there both
// plain and compressed counts as compressed: the plain one was about to be removed.
Result<std::vector<LogFile>> ListLogFiles(int directory);

// Compresses a file and removes the plain one. Reads, writes and syncs; call on a pool thread.
Status Compress(int directory, uint64_t index);

// Reads the lines of one file in order, from the start or from an offset of the plain text.
class LogReader {
 public:
  // kNotFound: neither form of the file exists.
  static Result<LogReader> Open(int directory, uint64_t index, uint64_t offset = 0);
  // Opens a file of kept lines (kept_lines.h).
  static Result<LogReader> OpenKept(int directory, const std::string& name);
  LogReader(LogReader&&) noexcept;
  LogReader& operator=(LogReader&&) noexcept;
  ~LogReader();

  // Returns the next line without its newline, valid until the next call. Nothing: the file ends
  // here. A last line without a newline is not returned: it is being written, or was torn. A line
  // of more than kMaxLine is returned in pieces, none of which can be a line of the log. Call again
  // later to read what was appended to a plain file meanwhile.
  Result<std::optional<std::string_view>> Next();
  // Returns the offset in the plain text behind the last returned line.
  uint64_t offset() const { return offset_; }
  // Returns the bytes behind the last newline, once Next has returned nothing.
  size_t torn() const { return text_.size() - at_; }
  int fd() const { return fd_.get(); }

 private:
  struct Decoder;
  explicit LogReader(UniqueFd fd);
  // Appends more text. Returns false at the end of the file.
  Result<bool> Fill();

  UniqueFd fd_;
  std::unique_ptr<Decoder> decoder_;  // null: a plain file
  std::string text_;                  // text that has been read; its part before at_ was returned
  size_t at_ = 0;                     // start of the next line in text_
  uint64_t offset_ = 0;
};

}  // namespace atl::audit
