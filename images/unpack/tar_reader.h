// Iterates over the entries of a tar in a BlobStream, with errors as Results.
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

  // Returns the next entry, valid until the next call; null at the end. Names are bytes, UTF-8 or
  // not. An entry that libarchive could read only partly (ARCHIVE_WARN: an attribute was lost) is
  // an error.
  Result<struct archive_entry*> Next();
  // Writes the current entry's content to `fd`, keeps holes, and counts its size.
  Status CopyContent(struct archive_entry* entry, int fd);

  // Reads to the end of the file and returns the digest of the uncompressed stream.
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

// Returns true if all bytes are zero. Such parts of a file become holes.
bool IsZero(std::string_view bytes);

// Returns the entry's name, byte for byte.
Result<std::string> EntryName(struct archive_entry* entry);

}  // namespace atl::images::unpack
