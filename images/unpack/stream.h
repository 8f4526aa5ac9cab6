// Reads a compressed or plain file as a stream of uncompressed bytes. Hashes them and enforces the
// limits.
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

// Returns libarchive's last error of `handle`, prefixed with `call`.
Error ArchiveError(struct archive* handle, std::string_view call);

class BlobStream {
 public:
  // Loads what OpenSSL needs from the file system (configuration, providers). Call before the
  // confinement; a later Open then needs nothing.
  static Status Prepare();

  // Reads `fd` (borrowed) from its beginning: plain, gzip, zstd, xz or bzip2. Data that is
  // compressed twice is refused.
  static Result<std::unique_ptr<BlobStream>> Open(int fd, const ExtractLimits& limits);
  BlobStream(const BlobStream&) = delete;
  BlobStream& operator=(const BlobStream&) = delete;

  // Returns the next bytes, valid until the next call; empty at the end.
  Result<std::string_view> Read();
  // Reads to the end: bytes after the last tar block belong to the diff_id too.
  Status Drain();
  // Returns the "sha256:…" of everything that was read.
  Result<std::string> DiffId();

  // Opens a tar reader on this stream, which must outlive it. Errors of the stream itself are
  // returned by TakeError, because libarchive can pass on only a text.
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
