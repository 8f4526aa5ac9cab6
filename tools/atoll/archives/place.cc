#include "tools/atoll/archives/place.h"

#include <archive_entry.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/sparse_file.h"
#include "runtime/base/sys.h"
#include "tools/atoll/archives/archive.h"

namespace atl::cli {
namespace {

constexpr mode_t kPermissions = 0777;

Error Planted(const std::string& name, const char* what) {
  return Error(Code::kFailedPrecondition,
               name + " is " + what +
                   " on this host, which is not followed or replaced: remove it, "
                   "or copy to another place");
}

std::string TemporaryName() {
  std::string name = ".atoll-cp-";
  for (const unsigned char byte : sys::RandomBytes(8)) {
    name += "0123456789abcdef"[byte >> 4];
    name += "0123456789abcdef"[byte & 15];
  }
  return name;
}

class Unpacker {
 public:
  Unpacker(archive* in, UniqueFd top) : in_(in), top_(std::move(top)) {}

  Status Run() {
    for (;;) {
      archive_entry* entry = nullptr;
      const int got = archive_read_next_header(in_, &entry);
      if (got == ARCHIVE_EOF) break;
      if (got != ARCHIVE_OK) return Failed("read the archive");
      ATOLL_TRY(Take(entry));
    }
    // Sets modes and times at the end. A read-only directory could not have been filled, and each
    // new entry changes its directory's time.
    for (auto made = directories_.rbegin(); made != directories_.rend(); ++made) {
      ATOLL_ASSIGN(const UniqueFd directory, OpenDirectory(made->path));
      if (::fchmod(directory.get(), made->mode) != 0) return FailSys("chmod " + made->path);
      if (::futimens(directory.get(), made->times) != 0) return FailSys("utimens " + made->path);
    }
    return {};
  }

 private:
  struct Directory {
    std::string path;
    mode_t mode;
    timespec times[2];
  };

  tl::unexpected<Error> Failed(const std::string& what) const {
    const char* why = archive_error_string(in_);
    return Fail(Code::kInternal, what + ": " + (why != nullptr ? why : "unknown error"));
  }

  // Normalises "./a//b/" to "a/b". Refuses paths that lead outside.
  static Result<std::string> PlainPath(const char* given) {
    const std::string name = given != nullptr ? given : "";
    std::string plain;
    for (size_t begin = 0; begin <= name.size();) {
      const size_t end = std::min(name.find('/', begin), name.size());
      const std::string part = name.substr(begin, end - begin);
      if (part == ".." || name.starts_with('/')) {
        return Fail(Code::kInvalidArgument, "the archive has '" + name.substr(0, 200) +
                                                "', which leads out of the directory");
      }
      if (!part.empty() && part != ".") plain += (plain.empty() ? "" : "/") + part;
      begin = end + 1;
    }
    return plain;
  }

  Result<UniqueFd> OpenDirectory(const std::string& path) const {
    auto opened = sys::OpenBeneath(top_.get(), path.empty() ? "." : path, O_RDONLY | O_DIRECTORY);
    if (!opened &&
        (opened.error().error_number() == ELOOP || opened.error().error_number() == ENOTDIR)) {
      return Fail(Planted(path, "a link or a file"));
    }
    return opened;
  }

  // Opens a directory and creates the missing part of its path.
  Result<UniqueFd> MakeDirectory(const std::string& path) const {
    auto opened = OpenDirectory(path);
    if (opened || opened.error().error_number() != ENOENT) return opened;
    const size_t slash = path.rfind('/');
    ATOLL_ASSIGN(const UniqueFd parent,
                 MakeDirectory(slash == std::string::npos ? "" : path.substr(0, slash)));
    const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
    if (::mkdirat(parent.get(), name.c_str(), 0700) != 0 && errno != EEXIST) {
      return FailSys("mkdir " + path);
    }
    return OpenDirectory(path);
  }

  Status Take(archive_entry* entry) {
    const auto type = archive_entry_filetype(entry);
    if (archive_entry_hardlink(entry) != nullptr ||
        (type != AE_IFREG && type != AE_IFDIR && type != AE_IFLNK)) {
      return {};  // execd sends no such entries; a hostile sandbox may
    }
    ATOLL_ASSIGN(const std::string path, PlainPath(archive_entry_pathname(entry)));
    const timespec modified{archive_entry_mtime(entry), archive_entry_mtime_nsec(entry)};
    const mode_t mode = archive_entry_perm(entry) & kPermissions;
    if (type == AE_IFDIR) {
      ATOLL_TRY(MakeDirectory(path));
      directories_.push_back({path, mode, {modified, modified}});
      return {};
    }
    const size_t slash = path.rfind('/');
    const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
    if (name.empty()) return {};
    ATOLL_ASSIGN(const UniqueFd parent,
                 MakeDirectory(slash == std::string::npos ? "" : path.substr(0, slash)));
    if (type == AE_IFLNK) return TakeLink(parent.get(), name, archive_entry_symlink(entry));
    return TakeFile(parent.get(), name, mode, modified);
  }

  static Status TakeLink(int parent, const std::string& name, const char* target) {
    const std::string temporary = TemporaryName();
    if (::symlinkat(target != nullptr ? target : "", parent, temporary.c_str()) != 0) {
      return FailSys("symlink " + name);
    }
    if (::renameat(parent, temporary.c_str(), parent, name.c_str()) == 0) return {};
    const auto failed = FailSys("rename to " + name);
    ::unlinkat(parent, temporary.c_str(), 0);
    return failed;
  }

  Status TakeFile(int parent, const std::string& name, mode_t mode, const timespec& modified) {
    ATOLL_ASSIGN(PlacedFile file, PlacedFile::Begin(parent, name));
    const void* data = nullptr;
    size_t size = 0;
    la_int64_t offset = 0;
    int got = ARCHIVE_OK;
    while ((got = archive_read_data_block(in_, &data, &size, &offset)) == ARCHIVE_OK) {
      if (::lseek(file.fd(), offset, SEEK_SET) < 0) return FailSys("lseek " + name);
      const std::string_view bytes(static_cast<const char*>(data), size);
      ATOLL_TRY(file.fresh() ? WriteWithHoles(file.fd(), bytes) : sys::WriteAll(file.fd(), bytes));
    }
    if (got != ARCHIVE_EOF) return Failed("read the archive");
    // libarchive reports the end of a sparse file as an empty block at its offset, which may lie
    // beyond the last data.
    if (size == 0 && ::lseek(file.fd(), offset, SEEK_SET) < 0) return FailSys("lseek " + name);
    if (file.fresh()) ATOLL_TRY(EndWithHoles(file.fd()));
    if (::fchmod(file.fd(), mode) != 0) return FailSys("chmod " + name);
    const timespec times[2] = {modified, modified};
    if (::futimens(file.fd(), times) != 0) return FailSys("utimens " + name);
    return file.Finish();
  }

  archive* const in_;
  const UniqueFd top_;
  std::vector<Directory> directories_;
};

}  // namespace

Result<PlacedFile> PlacedFile::Begin(int directory, const std::string& name) {
  struct stat info {};
  const bool there = ::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
  if (!there && errno != ENOENT) return FailSys("stat " + name);
  if (there && S_ISLNK(info.st_mode)) return Fail(Planted(name, "a link"));
  if (there && S_ISDIR(info.st_mode)) return Fail(Planted(name, "a directory"));
  if (there && !S_ISREG(info.st_mode)) {
    ATOLL_ASSIGN(UniqueFd fd, sys::OpenAt(directory, name, O_WRONLY | O_NOFOLLOW));
    return PlacedFile(directory, name, "", std::move(fd));
  }
  std::string temporary = TemporaryName();
  ATOLL_ASSIGN(UniqueFd fd,
               sys::OpenAt(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0666));
  PlacedFile file(directory, name, std::move(temporary), std::move(fd));
  if (there && ::fchmod(file.fd(), info.st_mode & kPermissions) != 0) {
    return FailSys("chmod " + name);
  }
  return file;
}

PlacedFile::PlacedFile(PlacedFile&& other) noexcept
    : directory_(other.directory_),
      name_(std::move(other.name_)),
      temporary_(std::exchange(other.temporary_, "")),
      fd_(std::move(other.fd_)) {}

PlacedFile::~PlacedFile() {
  if (!temporary_.empty()) ::unlinkat(directory_, temporary_.c_str(), 0);
}

Status PlacedFile::Finish() {
  if (temporary_.empty()) return {};
  if (::renameat(directory_, temporary_.c_str(), directory_, name_.c_str()) != 0) {
    return FailSys("rename to " + name_);
  }
  temporary_.clear();
  return {};
}

Status UnpackInto(int archive_fd, int directory, const std::string& name) {
  if (::mkdirat(directory, name.c_str(), 0777) != 0 && errno != EEXIST) {
    return FailSys("mkdir " + name);
  }
  auto top = sys::OpenAt(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!top && (top.error().error_number() == ELOOP || top.error().error_number() == ENOTDIR)) {
    return Fail(Planted(name, "a link or a file"));
  }
  if (!top) return Fail(std::move(top).error());
  const Archive in(archive_read_new());
  archive_read_support_format_tar(in.get());
  if (archive_read_open_fd(in.get(), archive_fd, kArchivePart) != ARCHIVE_OK) {
    return Fail(Code::kInternal,
                std::string("open the archive: ") + archive_error_string(in.get()));
  }
  return Unpacker(in.get(), std::move(*top)).Run();
}

}  // namespace atl::cli
