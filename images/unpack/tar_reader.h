// The entries of a tar inside a BlobStream, one after the other, with errors as Results.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "images/unpack/stream.h"
#include "runtime/base/result.h"

struct archive_entry;

namespace atl::images::unpack {

class TarReader {
 public:
  static Result<TarReader> Open(int input, const ExtractLimits& limits);

  // The next entry, valid until the next call; null at the end. Names are bytes, UTF-8 or not. An
  // entry that libarchive could read only in part (ARCHIVE_WARN: an attribute lost) is an error.
  Result<struct archive_entry*> Next();
  // Writes the present entry's content to `fd`, holes as holes, and counts it.
  Status CopyContent(struct archive_entry* entry, int fd);

  // Reads to the end of the file, then says what the uncompressed stream was.
  Result<std::string> FinishAndDigest();
  uint64_t content_bytes() const { return content_bytes_; }

 private:
  explicit TarReader(const ExtractLimits& limits) : limits_(limits) {}
  Status CountBytes(uint64_t bytes);
  Error TakeError(std::string_view call);

  ExtractLimits limits_;
  std::unique_ptr<BlobStream> stream_;
  ArchiveHandle tar_;  // reads from stream_
  uint64_t content_bytes_ = 0;
};

// What is left out of a file becomes a hole in it.
bool IsZero(std::string_view bytes);

// The entry's name, byte for byte.
Result<std::string> EntryName(struct archive_entry* entry);

}  // namespace atl::images::unpack
