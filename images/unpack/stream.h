// A compressed or plain file as a stream of uncompressed bytes, hashed and bounded on its way.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "images/unpack/limits.h"
#include "runtime/base/result.h"

struct archive;
struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace atl::images::unpack {

struct ArchiveCloser {
  void operator()(struct archive* handle) const;
};
using ArchiveHandle = std::unique_ptr<struct archive, ArchiveCloser>;

// What libarchive has to say about `handle`'s last failure, with `call` before it.
Error ArchiveError(struct archive* handle, std::string_view call);

class BlobStream {
 public:
  // Loads what OpenSSL wants from outside (its configuration, its providers). Before the
  // confinement takes the file system away; a later Open then needs nothing.
  static Status Prepare();

  // Reads `fd` (borrowed, from its beginning): plain, gzip, zstd, xz or bzip2. Compressed twice is
  // refused.
  static Result<std::unique_ptr<BlobStream>> Open(int fd, const ExtractLimits& limits);
  BlobStream(const BlobStream&) = delete;
  BlobStream& operator=(const BlobStream&) = delete;

  // The next bytes, valid until the next call; empty at the end.
  Result<std::string_view> Read();
  // To the end: what follows the last tar block belongs to the diff_id as well.
  Status Drain();
  // "sha256:…" of all that was read.
  Result<std::string> DiffId();

  // Opens a tar reader on this stream, which must outlive it. What went wrong in the stream itself
  // is to be had from TakeError: libarchive can pass on only a text.
  Result<ArchiveHandle> OpenTar();
  std::optional<Error> TakeError();

 private:
  struct DigestFree {
    void operator()(evp_md_ctx_st* context) const;
  };
  BlobStream(int fd, const ExtractLimits& limits) : fd_(fd), limits_(limits) {}
  Status OpenHandle();
  Result<std::string_view> ReadBlock();
  Status CheckBounds() const;

  static ssize_t ReadFile(struct archive* handle, void* self, const void** buffer);
  static ssize_t FeedTar(struct archive* handle, void* self, const void** buffer);

  int fd_;
  ExtractLimits limits_;
  uint64_t compressed_ = 0;
  uint64_t uncompressed_ = 0;
  bool ended_ = false;
  std::optional<Error> error_;
  std::unique_ptr<evp_md_ctx_st, DigestFree> digest_;
  std::string buffer_;
  ArchiveHandle handle_;
};

}  // namespace atl::images::unpack
