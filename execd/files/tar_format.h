// The tar format without I/O. Fuzzed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::execd {

inline constexpr size_t kTarBlock = 512;

struct TarEntry {
  char type = '0';  // '0' file, '1' hard link, '2' symbolic link, '5' directory
  std::string name;
  std::string link;
  uint32_t mode = 0, uid = 0, gid = 0;
  uint64_t size = 0;
  int64_t mtime = 0;
};

// The header of an entry; a pax header before it if a name or the size does not fit.
void AppendTarHeader(std::string* out, const TarEntry& entry);

class TarReader {
 public:
  // A long name or a pax header may be this large.
  static constexpr size_t kMaxMeta = 64 << 10;

  class Sink {
   public:
    virtual ~Sink() = default;
    virtual Status OnEntry(const TarEntry& entry) = 0;
    // Of a '0' entry.
    virtual Status OnData(std::string_view bytes) = 0;
    virtual Status OnEntryEnd() = 0;
  };
  explicit TarReader(Sink* sink) : sink_(*sink) {}

  Status Feed(std::string_view bytes);
  // True at a place where an archive may end: after whole entries.
  bool complete() const { return ended_ || (left_ == 0 && padding_ == 0 && block_.empty()); }

 private:
  Status Header(std::string_view block);
  Status Meta();
  Status Pax();
  Status Begin();

  Sink& sink_;
  std::string block_;  // a header that is not whole yet
  uint64_t left_ = 0;  // of the present entry's data
  uint64_t padding_ = 0;
  bool in_meta_ = false, in_data_ = false, ended_ = false;
  char meta_type_ = 0;
  std::string meta_;
  TarEntry entry_;
  std::string next_name_, next_link_;  // from 'L', 'K' and pax, for the next entry
  bool has_next_size_ = false;
  uint64_t next_size_ = 0;
};

}  // namespace atl::execd
