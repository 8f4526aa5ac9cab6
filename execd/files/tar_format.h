// The tar format. Free of I/O. Fuzzed.
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

// Appends the header of an entry. A pax header precedes it if a name or the size does not fit.
void AppendTarHeader(std::string* out, const TarEntry& entry);

class TarReader {
 public:
  // Limit on the size of a long name or a pax header.
  static constexpr size_t kMaxMeta = 64 << 10;

  class Sink {
   public:
    virtual ~Sink() = default;
    virtual Status OnEntry(const TarEntry& entry) = 0;
    // Data of a '0' entry.
    virtual Status OnData(std::string_view bytes) = 0;
    virtual Status OnEntryEnd() = 0;
  };
  explicit TarReader(Sink* sink) : sink_(*sink) {}

  Status Feed(std::string_view bytes);
  // True at the end of an entry, where an archive may end.
  bool complete() const { return ended_ || (left_ == 0 && padding_ == 0 && block_.empty()); }

 private:
  Status Header(std::string_view block);
  Status Meta();
  Status Pax();
  Status Begin();

  Sink& sink_;
  std::string block_;  // an incomplete header
  uint64_t left_ = 0;  // remaining bytes of the current entry's data
  uint64_t padding_ = 0;
  bool in_meta_ = false, in_data_ = false, ended_ = false;
  char meta_type_ = 0;
  std::string meta_;
  TarEntry entry_;
  std::string next_name_, next_link_;  // set by 'L', 'K' and pax headers, for the next entry
  bool has_next_size_ = false;
  uint64_t next_size_ = 0;
};

}  // namespace atl::execd
