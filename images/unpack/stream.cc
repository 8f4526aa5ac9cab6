#include "images/unpack/stream.h"

#include <archive.h>
#include <archive_entry.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "images/digest.h"

namespace atl::images::unpack {
namespace {

constexpr size_t kInflateChunk = 128 << 10;

}  // namespace

void ArchiveCloser::operator()(struct archive* handle) const {
  archive_read_free(handle);
}

void BlobStream::DigestFree::operator()(evp_md_ctx_st* context) const {
  EVP_MD_CTX_free(context);
}

Error ArchiveError(struct archive* handle, std::string_view call) {
  const char* text = archive_error_string(handle);
  return Error(archive_errno(handle) == ENOMEM ? Code::kResourceExhausted : Code::kInvalidArgument,
               std::string(call) + ": " + (text != nullptr ? text : "not readable"));
}

Status BlobStream::Prepare() {
  if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr) != 1) {
    return Fail(Code::kInternal, "OPENSSL_init_crypto");
  }
  // The first digest loads and caches the provider.
  unsigned char digest[EVP_MAX_MD_SIZE];
  if (EVP_Digest("", 0, digest, nullptr, EVP_sha256(), nullptr) != 1) {
    return Fail(Code::kInternal, "EVP_Digest sha256");
  }
  return {};
}

Result<std::unique_ptr<BlobStream>> BlobStream::Open(int fd, const ExtractLimits& limits) {
  std::unique_ptr<BlobStream> stream(new BlobStream(fd, limits));
  ATOLL_TRY(stream->OpenHandle());
  return stream;
}

Status BlobStream::OpenHandle() {
  if (::lseek(fd_, 0, SEEK_SET) != 0) return FailSys("lseek input");
  buffer_.resize(kInflateChunk);
  digest_.reset(EVP_MD_CTX_new());
  if (!digest_ || EVP_DigestInit_ex(digest_.get(), EVP_sha256(), nullptr) != 1) {
    return Fail(Code::kInternal, "EVP_DigestInit_ex sha256");
  }
  handle_.reset(archive_read_new());
  struct archive* const handle = handle_.get();
  if (handle == nullptr) return Fail(Code::kResourceExhausted, "archive_read_new");
  // Only formats that real archives use. Each further decoder would be more code that reads hostile
  // bytes.
  if (archive_read_support_filter_gzip(handle) != ARCHIVE_OK ||
      archive_read_support_filter_zstd(handle) != ARCHIVE_OK ||
      archive_read_support_filter_xz(handle) != ARCHIVE_OK ||
      archive_read_support_filter_bzip2(handle) != ARCHIVE_OK ||
      archive_read_support_format_raw(handle) != ARCHIVE_OK ||
      archive_read_support_format_empty(handle) != ARCHIVE_OK) {
    return Fail(Code::kUnavailable, "this libarchive lacks gzip, zstd, xz or bzip2");
  }
  if (archive_read_open(handle, this, nullptr, ReadFile, nullptr) != ARCHIVE_OK) {
    return Fail(ArchiveError(handle, "decompress"));
  }
  struct archive_entry* entry = nullptr;
  const int rc = archive_read_next_header(handle, &entry);
  if (rc == ARCHIVE_EOF) {
    ended_ = true;
    return {};
  }
  if (rc != ARCHIVE_OK) return Fail(ArchiveError(handle, "decompress"));
  // libarchive decodes up to 25 nested compressions, and each of them multiplies a bomb.
  if (archive_filter_count(handle) > 2) {
    return Fail(Code::kInvalidArgument, "it is compressed more than once");
  }
  return {};
}

ssize_t BlobStream::ReadFile(struct archive* handle, void* self, const void** buffer) {
  auto* const stream = static_cast<BlobStream*>(self);
  const ssize_t n =
      TEMP_FAILURE_RETRY(::read(stream->fd_, stream->buffer_.data(), stream->buffer_.size()));
  if (n < 0) {
    archive_set_error(handle, errno, "read input failed");
    return -1;
  }
  stream->compressed_ += static_cast<uint64_t>(n);
  *buffer = stream->buffer_.data();
  return n;
}

Status BlobStream::CheckBounds() const {
  if (uncompressed_ > limits_.max_bytes) {
    return Fail(Code::kResourceExhausted, "it unpacks to more than the " +
                                              std::to_string(limits_.max_bytes) + " bytes allowed");
  }
  if (uncompressed_ > limits_.ratio_floor && uncompressed_ / limits_.ratio > compressed_) {
    return Fail(Code::kResourceExhausted, "it unpacks to more than " +
                                              std::to_string(limits_.ratio) +
                                              " times its size: taken for a decompression bomb");
  }
  return {};
}

Result<std::string_view> BlobStream::ReadBlock() {
  if (ended_) return std::string_view();
  const void* data = nullptr;
  size_t size = 0;
  la_int64_t offset = 0;
  const int rc = archive_read_data_block(handle_.get(), &data, &size, &offset);
  if (rc == ARCHIVE_EOF) {
    ended_ = true;
    return std::string_view();
  }
  // A warning counts as an error: whatever its cause, the bytes are not those of the digest.
  if (rc != ARCHIVE_OK) return Fail(ArchiveError(handle_.get(), "decompress"));
  uncompressed_ += size;
  ATOLL_TRY(CheckBounds());
  if (EVP_DigestUpdate(digest_.get(), data, size) != 1) {
    return Fail(Code::kInternal, "EVP_DigestUpdate");
  }
  return std::string_view(static_cast<const char*>(data), size);
}

Result<std::string_view> BlobStream::Read() {
  for (;;) {
    auto block = ReadBlock();
    // libarchive takes an empty block for the end of the stream, so empty blocks in the middle are
    // skipped.
    if (!block || !block->empty() || ended_) return block;
  }
}

Status BlobStream::Drain() {
  for (;;) {
    ATOLL_ASSIGN(const std::string_view bytes, Read());
    if (bytes.empty()) return {};
  }
}

Result<std::string> BlobStream::DiffId() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (EVP_DigestFinal_ex(digest_.get(), digest, &size) != 1) {
    return Fail(Code::kInternal, "EVP_DigestFinal_ex");
  }
  return DigestText({reinterpret_cast<const char*>(digest), size});
}

ssize_t BlobStream::FeedTar(struct archive* handle, void* self, const void** buffer) {
  auto* const stream = static_cast<BlobStream*>(self);
  auto bytes = stream->Read();
  if (!bytes) {
    archive_set_error(handle, EIO, "%s", bytes.error().message().c_str());
    stream->error_ = std::move(bytes).error();
    return -1;
  }
  *buffer = bytes->data();
  return static_cast<ssize_t>(bytes->size());
}

Result<ArchiveHandle> BlobStream::OpenTar() {
  ArchiveHandle tar(archive_read_new());
  if (!tar) return Fail(Code::kResourceExhausted, "archive_read_new");
  if (archive_read_support_format_tar(tar.get()) != ARCHIVE_OK ||
      archive_read_support_format_empty(tar.get()) != ARCHIVE_OK) {
    return Fail(ArchiveError(tar.get(), "archive_read_support_format_tar"));
  }
  if (archive_read_open(tar.get(), this, nullptr, FeedTar, nullptr) != ARCHIVE_OK) {
    if (auto error = TakeError()) return Fail(*std::move(error));
    return Fail(ArchiveError(tar.get(), "tar"));
  }
  return tar;
}

std::optional<Error> BlobStream::TakeError() {
  return std::exchange(error_, std::nullopt);
}

}  // namespace atl::images::unpack
