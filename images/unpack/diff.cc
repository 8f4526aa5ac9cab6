#include "images/unpack/diff.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "images/unpack/archive_writer.h"
#include "images/unpack/entry_path.h"
#include "images/unpack/hard_links.h"
#include "images/unpack/tree_diff.h"
#include "runtime/base/sys.h"
#include "runtime/wire/diff.h"

namespace atl::images::unpack {
namespace {

constexpr size_t kDiffChunk = 64 << 10;
constexpr std::string_view kWhiteout = ".wh.";

std::vector<StackedLayer> LayersOf(const Stacks& stacks) {
  std::vector<StackedLayer> layers;
  for (size_t i = 0; i < stacks.size(); ++i) {
    const bool both = i >= stacks.now + stacks.was, now = both || i < stacks.now;
    layers.push_back({stacks.first + static_cast<int>(i), now, both || !now});
  }
  return layers;
}

char TypeOf(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return 'd';
    case S_IFLNK:
      return 'l';
    case S_IFIFO:
      return 'p';
    case S_IFSOCK:
      return 's';
    case S_IFCHR:
      return 'c';
    case S_IFBLK:
      return 'b';
    default:
      return 'f';
  }
}

char KindOf(Change::Kind kind) {
  return kind == Change::Kind::kAdded ? 'A' : kind == Change::Kind::kModified ? 'M' : 'D';
}

la_ssize_t WriteOut(archive* writer, void* out, const void* bytes, size_t size) {
  const auto written = sys::WriteAll(*static_cast<int*>(out),
                                     std::string_view(static_cast<const char*>(bytes), size));
  if (written) return static_cast<la_ssize_t>(size);
  archive_set_error(writer, written.error().error_number(), "write the archive");
  return -1;
}

class Archive {
 public:
  explicit Archive(int out) : out_(out) {}

  Status Open() {
    writer_.reset(archive_write_new());
    entry_.reset(archive_entry_new());
    if (!writer_ || !entry_) return Fail(Code::kInternal, "archive_write_new");
    // Names are raw bytes. Attributes use the header that all readers understand.
    ATOLL_TRY(Check(archive_write_set_format_pax_restricted(writer_.get())));
    ATOLL_TRY(Check(
        archive_write_set_options(writer_.get(), "pax:hdrcharset=BINARY,pax:xattrheader=SCHILY")));
    ATOLL_TRY(Check(archive_write_set_bytes_per_block(writer_.get(), kDiffChunk)));
    ATOLL_TRY(Check(archive_write_set_bytes_in_last_block(writer_.get(), 1)));
    return Check(archive_write_open(writer_.get(), &out_, nullptr, WriteOut, nullptr));
  }
  Status Close() { return Check(archive_write_close(writer_.get())); }

  Status Add(const Change& change) {
    if (change.name.starts_with(kWhiteout)) {
      return Fail(Code::kInvalidArgument,
                  "an archive cannot hold a file of this name, which would mean there that another "
                  "file is deleted: " +
                      Printable(change.path, 80));
    }
    if (change.kind == Change::Kind::kDeleted) return Whiteout(change.path);
    const mode_t mode = change.status.st_mode;
    if (S_ISSOCK(mode)) return {};  // tar has no sockets, and the process that listened is gone
    if (!S_ISREG(mode) && !S_ISDIR(mode)) return AddSpecial(change);
    const auto file =
        sys::OpenAt(change.directory, change.name,
                    O_RDONLY | O_NOFOLLOW | (S_ISDIR(mode) ? O_DIRECTORY : O_NONBLOCK));
    struct stat now {};
    // The file has vanished or changed its type since it was found.
    if (!file || ::fstat(file->get(), &now) != 0 || ((now.st_mode ^ mode) & S_IFMT) != 0) return {};
    return AddOpen(change, file->get(), now);
  }
  uint64_t bytes() const { return bytes_; }

 private:
  Status Check(int rc) const {
    if (rc == ARCHIVE_OK || rc == ARCHIVE_WARN) return {};
    const int error = archive_errno(writer_.get());
    if (error == EPIPE) return Fail(Error(Code::kUnavailable, "the reader is gone", EPIPE));
    const char* text = archive_error_string(writer_.get());
    return Fail(Code::kInternal, std::string("libarchive: ") + (text != nullptr ? text : "?"));
  }

  void Describe(std::string_view path, const struct stat& status) {
    archive_entry_clear(entry_.get());
    archive_entry_copy_stat(entry_.get(), &status);
    std::string name(path);
    if (S_ISDIR(status.st_mode)) name += '/';
    archive_entry_copy_pathname(entry_.get(), name.c_str());
    // Cleared, because they differ between runs and carry no information.
    archive_entry_unset_atime(entry_.get());
    archive_entry_unset_ctime(entry_.get());
    archive_entry_unset_birthtime(entry_.get());
    archive_entry_set_dev(entry_.get(), 0);
    archive_entry_set_ino64(entry_.get(), 0);
    archive_entry_set_nlink(entry_.get(), 1);
    if (!S_ISREG(status.st_mode)) archive_entry_set_size(entry_.get(), 0);
  }

  Status Whiteout(std::string_view path) {
    struct stat status {};
    status.st_mode = S_IFREG | 0600;
    const size_t slash = path.rfind('/') + 1;  // 0 without a slash
    Describe(std::string(path.substr(0, slash)) + std::string(kWhiteout) +
                 std::string(path.substr(slash)),
             status);
    return Check(archive_write_header(writer_.get(), entry_.get()));
  }

  Status AddSpecial(const Change& change) {
    std::string target(kMaxPath + 1, '\0');
    Describe(change.path, change.status);
    if (S_ISLNK(change.status.st_mode)) {
      const ssize_t size =
          ::readlinkat(change.directory, change.name.c_str(), target.data(), target.size());
      if (size < 0) return {};  // vanished meanwhile
      target.resize(static_cast<size_t>(size));
      archive_entry_copy_symlink(entry_.get(), target.c_str());
    }
    return Check(archive_write_header(writer_.get(), entry_.get()));
  }

  Status AddOpen(const Change& change, int file, const struct stat& now) {
    Describe(change.path, now);
    const bool regular = S_ISREG(now.st_mode);
    if (regular && now.st_nlink > 1) {
      ATOLL_ASSIGN(const std::string first, links_.NameOf(now, change.path));
      if (!first.empty()) {
        archive_entry_set_size(entry_.get(), 0);
        archive_entry_copy_hardlink(entry_.get(), first.c_str());
        return Check(archive_write_header(writer_.get(), entry_.get()));
      }
    }
    ATOLL_TRY(EachKeptXattr(file, [this](const char* name, std::string_view value) -> Status {
      archive_entry_xattr_add_entry(entry_.get(), name, value.data(), value.size());
      return {};
    }));
    ATOLL_TRY(Check(archive_write_header(writer_.get(), entry_.get())));
    return regular ? Content(file, static_cast<uint64_t>(now.st_size)) : Status();
  }

  // Writes exactly as many bytes as the header announced. If the file has shrunk, the rest is
  // zeros.
  Status Content(int file, uint64_t size) {
    buffer_.resize(kDiffChunk);
    for (uint64_t at = 0; at < size;) {
      const size_t most = static_cast<size_t>(std::min<uint64_t>(kDiffChunk, size - at));
      const ssize_t n =
          TEMP_FAILURE_RETRY(::pread(file, buffer_.data(), most, static_cast<off_t>(at)));
      if (n < 0) return FailSys("pread");
      if (n == 0) break;
      const la_ssize_t written =
          archive_write_data(writer_.get(), buffer_.data(), static_cast<size_t>(n));
      if (written < 0) return Check(static_cast<int>(written));
      at += static_cast<uint64_t>(n);
    }
    bytes_ += size;
    return Check(archive_write_finish_entry(writer_.get()));
  }

  int out_;
  ArchiveWriter writer_;
  ArchiveEntry entry_;
  HardLinks links_;
  std::string buffer_;
  uint64_t bytes_ = 0;
};

UnpackReport ReportOf(uint64_t entries, uint64_t bytes) {
  UnpackReport report;
  report.entries = entries;
  report.bytes = bytes;
  return report;
}

}  // namespace

Result<UnpackReport> ListDiff(const Stacks& stacks, int out, const ExtractLimits& limits) {
  std::string text;
  const auto flush = [&]() -> Status {
    ATOLL_TRY(sys::WriteAll(out, text));
    text.clear();
    return {};
  };
  TreeDiff diff(limits, false, [&](const Change& change) -> Status {
    const mode_t mode = change.status.st_mode;
    const auto size = S_ISREG(mode) ? static_cast<uint64_t>(change.status.st_size) : 0;
    text +=
        wire::DiffEntry{KindOf(change.kind), TypeOf(mode), size, std::string(change.path)}.Encode();
    return text.size() < kDiffChunk ? Status() : flush();
  });
  ATOLL_TRY(diff.Run(LayersOf(stacks)));
  ATOLL_TRY(flush());
  return ReportOf(diff.entries(), 0);
}

Result<UnpackReport> ArchiveDiff(const Stacks& stacks, int out, const ExtractLimits& limits) {
  Archive archive(out);
  ATOLL_TRY(archive.Open());
  TreeDiff diff(limits, true, [&archive](const Change& change) { return archive.Add(change); });
  ATOLL_TRY(diff.Run(LayersOf(stacks)));
  ATOLL_TRY(archive.Close());
  return ReportOf(diff.entries(), archive.bytes());
}

}  // namespace atl::images::unpack
