#include "images/unpack/tar_reader.h"

#include <archive.h>
#include <archive_entry.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace atl::images::unpack {

Result<TarReader> TarReader::Open(int input, const ExtractLimits& limits) {
  TarReader reader(limits);
  ATOLL_ASSIGN(reader.stream_, BlobStream::Open(input, limits));
  ATOLL_ASSIGN(reader.tar_, reader.stream_->OpenTar());
  return reader;
}

Error TarReader::TakeError(std::string_view call) {
  if (auto error = stream_->TakeError()) return *std::move(error);
  return ArchiveError(tar_.get(), call);
}

Result<struct archive_entry*> TarReader::Next() {
  struct archive_entry* entry = nullptr;
  const int rc = archive_read_next_header(tar_.get(), &entry);
  if (rc == ARCHIVE_EOF) {
    // libarchive sometimes takes an unreadable tail for the end; the stream knows the error.
    if (auto error = stream_->TakeError()) return Fail(*std::move(error));
    return nullptr;
  }
  // EILSEQ: a name in a PAX header is not UTF-8, and libarchive has kept its bytes.
  const bool raw_name = rc == ARCHIVE_WARN && archive_errno(tar_.get()) == EILSEQ;
  if (rc != ARCHIVE_OK && !raw_name) return Fail(TakeError("tar"));
  return entry;
}

Status TarReader::CountBytes(uint64_t bytes) {
  if (bytes > limits_.max_bytes || content_bytes_ > limits_.max_bytes - bytes) {
    return Fail(Code::kResourceExhausted, "the archive's files have more than the " +
                                              std::to_string(limits_.max_bytes) + " bytes allowed");
  }
  content_bytes_ += bytes;
  return {};
}

Status TarReader::CopyContent(struct archive_entry* entry, int fd) {
  const int64_t size = archive_entry_size(entry);
  if (size < 0) return Fail(Code::kInvalidArgument, "its size is negative");
  // The declared size counts, including holes. A sparse file of 8 EiB takes no space here, but
  // whoever copies the tree later would pay for it.
  ATOLL_TRY(CountBytes(static_cast<uint64_t>(size)));
  for (;;) {
    const void* data = nullptr;
    size_t count = 0;
    la_int64_t offset = 0;
    const int rc = archive_read_data_block(tar_.get(), &data, &count, &offset);
    if (rc == ARCHIVE_EOF) break;
    if (rc != ARCHIVE_OK) return Fail(TakeError("tar"));
    if (offset < 0 || offset > size || count > static_cast<uint64_t>(size - offset)) {
      return Fail(Code::kInvalidArgument, "its data goes beyond its size");
    }
    const char* bytes = static_cast<const char*>(data);
    if (IsZero({bytes, count})) continue;
    while (count > 0) {
      const ssize_t n = TEMP_FAILURE_RETRY(::pwrite(fd, bytes, count, offset));
      if (n < 0) return FailSys("write");
      bytes += n;
      offset += n;
      count -= static_cast<size_t>(n);
    }
  }
  // A hole at the end has no block that would extend the file.
  if (::ftruncate(fd, size) != 0) return FailSys("ftruncate");
  return {};
}

Result<std::string> TarReader::FinishAndDigest() {
  ATOLL_TRY(stream_->Drain());
  return stream_->DiffId();
}

bool IsZero(std::string_view bytes) {
  return bytes.find_first_not_of('\0') == std::string_view::npos;
}

Result<std::string> EntryName(struct archive_entry* entry) {
  const char* name = archive_entry_pathname(entry);
  if (name == nullptr) return Fail(Code::kInvalidArgument, "an entry's name is not readable");
  return std::string(name);
}

}  // namespace atl::images::unpack
