#include "runtime/tenants/audit/log_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>

#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"
#include "runtime/tenants/audit/audit_line.h"

namespace atl::audit {
namespace {

constexpr size_t kDigits = 6;
constexpr std::string_view kPlain = ".jsonl";
constexpr std::string_view kCompressed = ".jsonl.zst";
constexpr size_t kPiece = 64 << 10;
constexpr int kLevel = 3;  // 8 % of the size, at 300 MB/s

std::optional<LogFile> ParseName(std::string_view name) {
  LogFile file;
  if (name.size() < kDigits) return {};
  const auto number = std::from_chars(name.data(), name.data() + name.size(), file.index);
  if (number.ec != std::errc() || file.index == 0) return {};
  const std::string_view end = name.substr(static_cast<size_t>(number.ptr - name.data()));
  file.compressed = end == kCompressed;
  if ((!file.compressed && end != kPlain) || file.Name() != name) return {};
  return file;
}

Status WriteAll(int fd, const ZSTD_outBuffer& out) {
  return sys::WriteAll(fd, {static_cast<const char*>(out.dst), out.pos});
}

// Copies the compressed form of `from` to `to`.
Status CompressInto(int from, int to) {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  if (context == nullptr) return Fail(Code::kResourceExhausted, "zstd: out of memory");
  const Cleanup freed([context] { ZSTD_freeCCtx(context); });
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, kLevel);
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string text(kPiece, '\0'), packed(ZSTD_CStreamOutSize(), '\0');
  for (;;) {
    const ssize_t n = ::read(from, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FailSys("read");
    ZSTD_inBuffer in{text.data(), static_cast<size_t>(n), 0};
    const ZSTD_EndDirective directive = n == 0 ? ZSTD_e_end : ZSTD_e_continue;
    for (;;) {
      ZSTD_outBuffer out{packed.data(), packed.size(), 0};
      const size_t left = ZSTD_compressStream2(context, &out, &in, directive);
      if (ZSTD_isError(left) != 0) {
        return Fail(Code::kInternal, std::string("zstd: ") + ZSTD_getErrorName(left));
      }
      ATOLL_TRY(WriteAll(to, out));
      if (n == 0 ? left == 0 : in.pos == in.size) break;
    }
    if (n == 0) return {};
  }
}

}  // namespace

std::string LogFile::Name() const {
  std::string digits = std::to_string(index);
  if (digits.size() < kDigits) digits.insert(0, kDigits - digits.size(), '0');
  return digits.append(compressed ? kCompressed : kPlain);
}

Result<std::vector<LogFile>> ListLogFiles(int directory) {
  std::map<uint64_t, LogFile> found;
  Status failed;
  ATOLL_TRY(sys::EachName(directory, [&](const char* name) {
    auto file = ParseName(name);
    struct stat info {};
    if (!file || ::fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return true;
    if (!S_ISREG(info.st_mode)) return true;
    file->size = static_cast<uint64_t>(info.st_size);
    file->unix_s = info.st_mtim.tv_sec;
    LogFile& entry = found[file->index];
    if (entry.index == 0 || file->compressed) entry = *file;
    return true;
  }));
  std::vector<LogFile> files;
  for (const auto& [index, file] : found) files.push_back(file);
  return files;
}

Status ShowToGroup(int file) {
  if (::fchmod(file, kFileMode) != 0) return FailSys("fchmod a file of the audit log");
  return {};
}

Status Compress(int directory, uint64_t index) {
  const std::string plain = LogFile{.index = index}.Name();
  const std::string packed = LogFile{.index = index, .compressed = true}.Name();
  const std::string made = packed + ".new";
  ATOLL_ASSIGN(const UniqueFd from, sys::OpenAt(directory, plain, O_RDONLY | O_NOFOLLOW));
  const Status written = [&]() -> Status {
    ATOLL_ASSIGN(
        const UniqueFd to,
        sys::OpenAt(directory, made, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, kFileMode));
    ATOLL_TRY(ShowToGroup(to.get()));
    ATOLL_TRY(CompressInto(from.get(), to.get()));
    // Retention counts the age of the lines, so the file keeps its time.
    struct stat info {};
    if (::fstat(from.get(), &info) != 0) return FailSys("fstat " + plain);
    const timespec times[] = {info.st_mtim, info.st_mtim};
    if (::futimens(to.get(), times) != 0) return FailSys("futimens " + made);
    if (::fsync(to.get()) != 0) return FailSys("fsync " + made);
    if (::renameat(directory, made.c_str(), directory, packed.c_str()) != 0) {
      return FailSys("rename " + made);
    }
    return {};
  }();
  if (!written) {
    ::unlinkat(directory, made.c_str(), 0);
    return written;
  }
  if (::fsync(directory) != 0) return FailSys("fsync of the audit directory");
  if (::unlinkat(directory, plain.c_str(), 0) != 0) return FailSys("unlink " + plain);
  return {};
}

struct LogReader::Decoder {
  Decoder() : context(ZSTD_createDCtx()) {}
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { ZSTD_freeDCtx(context); }

  ZSTD_DCtx* const context;
  std::string packed = std::string(kPiece, '\0');
  ZSTD_inBuffer in{packed.data(), 0, 0};
};

LogReader::LogReader(UniqueFd fd) : fd_(std::move(fd)) {}
LogReader::LogReader(LogReader&&) noexcept = default;
LogReader& LogReader::operator=(LogReader&&) noexcept = default;
LogReader::~LogReader() = default;

Result<LogReader> LogReader::Open(int directory, uint64_t index, uint64_t offset) {
  LogFile file{.index = index};
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK;
  auto fd = sys::OpenAt(directory, file.Name(), kFlags);
  if (!fd && fd.error().code() == Code::kNotFound) {
    file.compressed = true;
    fd = sys::OpenAt(directory, file.Name(), kFlags);
  }
  if (!fd) return Fail(std::move(fd).error());
  LogReader reader(std::move(*fd));
  if (!file.compressed) {
    if (::lseek(reader.fd_.get(), static_cast<off_t>(offset), SEEK_SET) < 0) {
      return FailSys("lseek " + file.Name());
    }
    reader.offset_ = offset;
    return reader;
  }
  reader.decoder_ = std::make_unique<Decoder>();
  if (reader.decoder_->context == nullptr) {
    return Fail(Code::kResourceExhausted, "zstd: out of memory");
  }
  while (reader.offset_ < offset) {
    ATOLL_ASSIGN(const auto line, reader.Next());
    if (!line) break;
  }
  return reader;
}

Result<LogReader> LogReader::OpenKept(int directory, const std::string& name) {
  ATOLL_ASSIGN(UniqueFd fd, sys::OpenAt(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  return LogReader(std::move(fd));
}

Result<bool> LogReader::Fill() {
  text_.erase(0, at_);
  at_ = 0;
  const size_t before = text_.size();
  if (!decoder_) {
    text_.resize(before + kPiece);
    ssize_t n;
    do {
      n = ::read(fd_.get(), text_.data() + before, kPiece);
    } while (n < 0 && errno == EINTR);
    text_.resize(before + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n < 0) return FailSys("read the audit log");
    return n > 0;
  }
  ZSTD_inBuffer& in = decoder_->in;
  for (;;) {
    if (in.pos == in.size) {
      const ssize_t n = ::read(fd_.get(), decoder_->packed.data(), kPiece);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return FailSys("read the audit log");
      if (n == 0) return false;
      in = {decoder_->packed.data(), static_cast<size_t>(n), 0};
    }
    text_.resize(before + kPiece);
    ZSTD_outBuffer out{text_.data() + before, kPiece, 0};
    const size_t result = ZSTD_decompressStream(decoder_->context, &out, &in);
    text_.resize(before + out.pos);
    if (ZSTD_isError(result) != 0) {
      return Fail(Code::kInvalidArgument, std::string("a compressed file of the log is damaged: ") +
                                              ZSTD_getErrorName(result));
    }
    if (out.pos > 0) return true;
  }
}

Result<std::optional<std::string_view>> LogReader::Next() {
  for (;;) {
    const std::string_view rest = std::string_view(text_).substr(at_);
    size_t size = rest.find('\n');
    // Longer than any line: hands out pieces, so that a hostile file cannot fill the memory.
    const bool piece = size == std::string_view::npos && rest.size() > kMaxLine;
    if (piece) size = kMaxLine;
    if (size != std::string_view::npos) {
      at_ += size + (piece ? 0 : 1);
      offset_ += size + (piece ? 0 : 1);
      return rest.substr(0, size);
    }
    ATOLL_ASSIGN(const bool more, Fill());
    if (!more) return std::optional<std::string_view>();
  }
}

}  // namespace atl::audit
