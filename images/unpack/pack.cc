#include "images/unpack/pack.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "images/digest.h"
#include "images/unpack/archive_writer.h"
#include "images/unpack/entry_path.h"
#include "images/unpack/hard_links.h"
#include "images/unpack/stream.h"
#include "images/unpack/tar_reader.h"
#include "images/unpack/tree_copy.h"
#include "runtime/base/sys.h"

namespace atl::images::unpack {
namespace {

constexpr size_t kBuffer = 256 << 10;
constexpr std::string_view kOpaque = "user.overlay.opaque";

// Gets what libarchive writes and hashes it on its way to the file.
class TarSink {
 public:
  explicit TarSink(int output) : output_(output), digest_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    ATOLL_CHECK(digest_ && EVP_DigestInit_ex(digest_.get(), EVP_sha256(), nullptr) == 1);
  }

  static la_ssize_t Write(struct archive* handle, void* self, const void* bytes, size_t size) {
    auto& sink = *static_cast<TarSink*>(self);
    const std::string_view part(static_cast<const char*>(bytes), size);
    ATOLL_CHECK(EVP_DigestUpdate(sink.digest_.get(), bytes, size) == 1);
    sink.size_ += size;
    if (sink.output_ < 0) return static_cast<la_ssize_t>(size);
    sink.written_ = IsZero(part) ? sink.Skip(size) : sys::WriteAll(sink.output_, part);
    if (sink.written_) return static_cast<la_ssize_t>(size);
    archive_set_error(handle, sink.written_.error().error_number(), "write");
    return -1;
  }

  // The error that stopped libarchive, which can pass on only a text.
  const Status& written() const { return written_; }
  uint64_t size() const { return size_; }
  std::string Digest() {
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    ATOLL_CHECK(EVP_DigestFinal_ex(digest_.get(), raw, &length) == 1);
    return DigestText({reinterpret_cast<const char*>(raw), length});
  }

 private:
  // Zeros become a hole. The file's offset moves on, because the caller continues after the
  // archive.
  Status Skip(size_t size) {
    if (::lseek(output_, static_cast<off_t>(size), SEEK_CUR) < 0) return FailSys("lseek");
    return {};
  }

  const int output_;
  Status written_;
  uint64_t size_ = 0;
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest_;
};

class Packing {
 public:
  Packing(int output, const ExtractLimits& limits)
      : limits_(limits), sink_(output), writer_(archive_write_new()), entry_(archive_entry_new()) {}

  Result<UnpackReport> Run(int root);

 private:
  Status Check(int code, std::string_view call) {
    if (code >= ARCHIVE_WARN) return {};
    if (!sink_.written()) return sink_.written();
    return Fail(ArchiveError(writer_.get(), call));
  }
  Status AddTree(int directory, const std::string& path, size_t depth);
  Status AddName(int parent, const std::string& path, const std::string& name, size_t depth);
  Status AddFile(int parent, const std::string& path, const std::string& name,
                 const struct stat& now);
  Status AddMark(const std::string& path);
  // Writes a header. Everything else about the member is already in entry_.
  Status AddHeader(const std::string& path, const struct stat& now);
  void Begin() { archive_entry_clear(entry_.get()); }
  // Reads the attributes that belong to an image. Sets `opaque` if the directory is marked so.
  Status ReadXattrs(int fd, const std::string& path, bool* opaque);
  Status CopyContent(int file, const std::string& path, off_t size);

  const ExtractLimits limits_;
  uint64_t content_bytes_ = 0;
  TarSink sink_;
  ArchiveWriter writer_;
  ArchiveEntry entry_;
  HardLinks links_;
  std::string buffer_ = std::string(kBuffer, '\0');
  std::string names_ = std::string(64 << 10, '\0');  // XATTR_LIST_MAX
  std::string value_ = std::string(64 << 10, '\0');  // XATTR_SIZE_MAX
  UnpackReport report_;
};

Result<UnpackReport> Packing::Run(int root) {
  ATOLL_TRY(Check(archive_write_set_format_pax_restricted(writer_.get()), "pax"));
  // One form of attributes is enough: all readers of image tars understand it.
  ATOLL_TRY(Check(archive_write_set_options(writer_.get(), "xattrheader=SCHILY"), "xattrheader"));
  ATOLL_TRY(Check(archive_write_set_bytes_per_block(writer_.get(), kBuffer), "bytes_per_block"));
  ATOLL_TRY(Check(archive_write_set_bytes_in_last_block(writer_.get(), 512), "last_block"));
  ATOLL_TRY(Check(archive_write_open(writer_.get(), &sink_, nullptr, &TarSink::Write, nullptr),
                  "archive_write_open"));
  ATOLL_TRY(AddTree(root, "", 0));
  ATOLL_TRY(Check(archive_write_close(writer_.get()), "archive_write_close"));
  report_.bytes = sink_.size();
  report_.content = sink_.Digest();
  return report_;
}

Status Packing::AddTree(int directory, const std::string& path, size_t depth) {
  if (depth > kMaxDepth) return Fail(Code::kInvalidArgument, path + " is too deep");
  struct stat now {};
  if (::fstat(directory, &now) != 0) return FailSys("fstat " + path);
  Begin();
  bool opaque = false;
  ATOLL_TRY(ReadXattrs(directory, path, &opaque));
  ATOLL_TRY(AddHeader(path.empty() ? "./" : path + "/", now));
  const std::string prefix = path.empty() ? "" : path + "/";
  if (opaque) ATOLL_TRY(AddMark(prefix + ".wh..wh..opq"));
  ATOLL_ASSIGN(std::vector<std::string> names, sys::ListDir(directory));
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    ATOLL_TRY(AddName(directory, prefix + name, name, depth));
  }
  return {};
}

Status Packing::AddName(int parent, const std::string& path, const std::string& name,
                        size_t depth) {
  if (name.starts_with(".wh.")) {
    return Fail(Code::kInvalidArgument,
                Printable(path, 80) +
                    " has a name that means a deleted file in an image archive: rename it");
  }
  struct stat now {};
  if (::fstatat(parent, name.c_str(), &now, AT_SYMLINK_NOFOLLOW) != 0) {
    return FailSys("fstatat " + path);
  }
  if (S_ISDIR(now.st_mode)) {
    ATOLL_ASSIGN(const UniqueFd directory,
                 sys::OpenAt(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    return AddTree(directory.get(), path, depth + 1);
  }
  if (S_ISCHR(now.st_mode)) {
    // A whiteout, the only device that a layer may have.
    if (now.st_rdev != 0) return Fail(Code::kInvalidArgument, path + " is a device");
    return AddMark(path.substr(0, path.size() - name.size()) + ".wh." + name);
  }
  // A socket of an ended process. tar has no type for it. Images never have one, but a sandbox's
  // files may.
  if (S_ISSOCK(now.st_mode)) return {};
  Begin();
  if (now.st_nlink > 1) {
    ATOLL_ASSIGN(const std::string first, links_.NameOf(now, path));
    if (!first.empty()) {
      archive_entry_copy_hardlink(entry_.get(), first.c_str());
      now.st_size = 0;
      return AddHeader(path, now);
    }
  }
  if (S_ISREG(now.st_mode)) return AddFile(parent, path, name, now);
  if (S_ISLNK(now.st_mode)) {
    const ssize_t size = ::readlinkat(parent, name.c_str(), buffer_.data(), buffer_.size());
    if (size < 0) return FailSys("readlinkat " + path);
    archive_entry_copy_symlink(entry_.get(), buffer_.substr(0, static_cast<size_t>(size)).c_str());
    now.st_size = 0;
  } else if (!S_ISFIFO(now.st_mode)) {
    return Fail(Code::kInvalidArgument, path + " has a type that image archives do not have");
  }
  return AddHeader(path, now);
}

Status Packing::AddFile(int parent, const std::string& path, const std::string& name,
                        const struct stat& now) {
  ATOLL_ASSIGN(const UniqueFd file, sys::OpenAt(parent, name, O_RDONLY | O_NOFOLLOW));
  bool opaque = false;
  ATOLL_TRY(ReadXattrs(file.get(), path, &opaque));
  // Counted including holes, like the reader of the archive will count it.
  const auto size = static_cast<uint64_t>(now.st_size);
  if (size > limits_.max_bytes || content_bytes_ > limits_.max_bytes - size) {
    return Fail(Code::kInvalidArgument,
                Printable(path, 80) + " has " + std::to_string(size) +
                    " bytes, holes included, and all files of a layer may have " +
                    std::to_string(limits_.max_bytes));
  }
  content_bytes_ += size;
  ATOLL_TRY(AddHeader(path, now));
  return CopyContent(file.get(), path, now.st_size);
}

Status Packing::AddMark(const std::string& path) {
  Begin();
  struct stat mark {};
  mark.st_mode = S_IFREG;
  return AddHeader(path, mark);
}

Status Packing::AddHeader(const std::string& path, const struct stat& now) {
  ++report_.entries;
  struct archive_entry* entry = entry_.get();
  archive_entry_copy_pathname(entry, path.c_str());
  archive_entry_set_mode(entry, now.st_mode);
  archive_entry_set_uid(entry, now.st_uid);
  archive_entry_set_gid(entry, now.st_gid);
  archive_entry_set_mtime(entry, now.st_mtim.tv_sec, 0);
  archive_entry_set_size(entry, S_ISREG(now.st_mode) ? now.st_size : 0);
  return Check(archive_write_header(writer_.get(), entry), path);
}

Status Packing::ReadXattrs(int fd, const std::string& path, bool* opaque) {
  const ssize_t size = ::flistxattr(fd, names_.data(), names_.size());
  if (size < 0 && errno != ENOTSUP) return FailSys("flistxattr " + path);
  std::vector<std::string> sorted;
  for (size_t at = 0; size > 0 && at < static_cast<size_t>(size); at += sorted.back().size() + 1) {
    sorted.emplace_back(names_.data() + at);
  }
  std::sort(sorted.begin(), sorted.end());
  for (const std::string& name : sorted) {
    if (name == kOpaque) {
      *opaque = true;
      continue;
    }
    // Images do not have access lists, or attributes that a sandbox itself has called
    // user.overlay.*.
    if (!IsCopied(name) || name.starts_with("system.") || name.starts_with("user.overlay.")) {
      continue;
    }
    const ssize_t length = ::fgetxattr(fd, name.c_str(), value_.data(), value_.size());
    if (length < 0) return FailSys("fgetxattr " + name + " of " + path);
    archive_entry_xattr_add_entry(entry_.get(), name.c_str(), value_.data(),
                                  static_cast<size_t>(length));
  }
  return {};
}

Status Packing::CopyContent(int file, const std::string& path, off_t size) {
  for (off_t left = size; left > 0;) {
    const size_t wanted = std::min(buffer_.size(), static_cast<size_t>(left));
    const ssize_t n = TEMP_FAILURE_RETRY(::read(file, buffer_.data(), wanted));
    if (n < 0) return FailSys("read " + path);
    if (n == 0) return Fail(Code::kInternal, path + " is shorter than its size says");
    if (archive_write_data(writer_.get(), buffer_.data(), static_cast<size_t>(n)) != n) {
      return Check(ARCHIVE_FATAL, path);
    }
    left -= n;
  }
  return {};
}

}  // namespace

Result<UnpackReport> PackTree(int root, int output, const ExtractLimits& limits) {
  return Packing(output, limits).Run(root);
}

}  // namespace atl::images::unpack
