#include "tools/atoll/archives/copy_tar.h"

#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "runtime/base/sparse_file.h"
#include "runtime/base/sys.h"
#include "tools/atoll/archives/archive.h"

namespace atl::cli {
namespace {

constexpr int kSpoolBlock = 64 << 10;

struct FreeEntry {
  void operator()(archive_entry* e) const { archive_entry_free(e); }
};
using Entry = std::unique_ptr<archive_entry, FreeEntry>;

tl::unexpected<Error> FailArchive(const std::string& call, archive* a) {
  const char* why = archive_error_string(a);
  return Fail(Code::kInternal, call + ": " + (why != nullptr ? why : "unknown error"));
}

class Packer {
 public:
  static Result<Packer> Start() {
    ATOLL_ASSIGN(UniqueFd file, TemporaryFile());
    Packer packer(std::move(file), Archive(archive_write_new()));
    archive* out = packer.out_.get();
    packer.to_ = std::make_unique<int>(packer.file_.get());
    if (archive_write_set_format_pax_restricted(out) != ARCHIVE_OK ||
        archive_write_set_bytes_per_block(out, kSpoolBlock) != ARCHIVE_OK ||
        archive_write_set_bytes_in_last_block(out, 1) != ARCHIVE_OK ||
        archive_write_open2(out, packer.to_.get(), nullptr, &Packer::Write, nullptr, nullptr) !=
            ARCHIVE_OK) {
      return FailArchive("begin an archive", out);
    }
    return packer;
  }

  Status Add(int fd, const std::string& name, const struct stat& info, const std::string& link) {
    const Entry entry(archive_entry_new());
    archive_entry_set_pathname(entry.get(), name.c_str());
    archive_entry_copy_stat(entry.get(), &info);
    // The sandbox sets its own owners.
    archive_entry_set_uid(entry.get(), 0);
    archive_entry_set_gid(entry.get(), 0);
    if (!link.empty()) archive_entry_set_symlink(entry.get(), link.c_str());
    if (archive_write_header(out_.get(), entry.get()) != ARCHIVE_OK) {
      return FailArchive("archive " + name, out_.get());
    }
    if (!S_ISREG(info.st_mode)) return {};
    std::string part(kArchivePart, '\0');
    auto left = static_cast<uint64_t>(info.st_size);
    while (left > 0) {
      const ssize_t n = read(fd, part.data(), std::min<uint64_t>(part.size(), left));
      if (n < 0) return FailSys("read " + name);
      if (n == 0) return Fail(Code::kUnavailable, name + " became shorter while it was read");
      if (archive_write_data(out_.get(), part.data(), static_cast<size_t>(n)) != n) {
        return FailArchive("archive " + name, out_.get());
      }
      left -= static_cast<uint64_t>(n);
    }
    return {};
  }

  // Names of entries that are neither files, directories nor links. These are left out.
  const Words& skipped() const { return skipped_; }

  // Adds the content of the directory. `prefix` is "" or ends with a slash.
  Status AddTree(int directory, const std::string& prefix) {
    ATOLL_ASSIGN(const auto names, sys::ListDir(directory));
    for (const std::string& name : names) {
      struct stat info {};
      if (fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
        return FailSys("stat " + prefix + name);
      }
      if (S_ISDIR(info.st_mode)) {
        ATOLL_TRY(Add(-1, prefix + name, info, ""));
        ATOLL_ASSIGN(const UniqueFd sub,
                     sys::OpenAt(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
        ATOLL_TRY(AddTree(sub.get(), prefix + name + "/"));
      } else if (S_ISLNK(info.st_mode)) {
        std::string target(4096, '\0');
        const ssize_t n = readlinkat(directory, name.c_str(), target.data(), target.size());
        if (n < 0) return FailSys("readlink " + prefix + name);
        ATOLL_TRY(Add(-1, prefix + name, info, target.substr(0, static_cast<size_t>(n))));
      } else if (S_ISREG(info.st_mode)) {
        ATOLL_ASSIGN(const UniqueFd file, sys::OpenAt(directory, name, O_RDONLY | O_NOFOLLOW));
        ATOLL_TRY(Add(file.get(), prefix + name, info, ""));
      } else {
        skipped_.push_back(prefix + name);
      }
    }
    return {};
  }

  Result<UniqueFd> Finish() && {
    if (archive_write_close(out_.get()) != ARCHIVE_OK) {
      return FailArchive("end an archive", out_.get());
    }
    ATOLL_TRY(EndWithHoles(file_.get()));
    if (lseek(file_.get(), 0, SEEK_SET) != 0) return FailSys("lseek");
    return std::move(file_);
  }

 private:
  // Keeps holes, so that a sparse file does not fill the host's disk with zeros.
  static la_ssize_t Write(archive* out, void* to, const void* bytes, size_t size) {
    const Status written =
        WriteWithHoles(*static_cast<int*>(to), {static_cast<const char*>(bytes), size});
    if (written) return static_cast<la_ssize_t>(size);
    archive_set_error(out, written.error().error_number(), "%s", written.error().message().c_str());
    return -1;
  }

  Packer(UniqueFd file, Archive out) : file_(std::move(file)), out_(std::move(out)) {}
  UniqueFd file_;
  std::unique_ptr<int> to_;  // the descriptor passed to Write; outlives out_
  Archive out_;
  Words skipped_;
};

}  // namespace

Result<UniqueFd> TemporaryFile() {
  const char* given = std::getenv("TMPDIR");
  return sys::Open(given != nullptr && *given != '\0' ? given : "/var/tmp", O_TMPFILE | O_RDWR,
                   0600);
}

Result<UniqueFd> PackDirectory(const std::string& path, Words* skipped) {
  ATOLL_ASSIGN(const UniqueFd directory, sys::Open(path, O_RDONLY | O_DIRECTORY));
  ATOLL_ASSIGN(Packer packer, Packer::Start());
  ATOLL_TRY(packer.AddTree(directory.get(), ""));
  if (skipped != nullptr) *skipped = packer.skipped();
  return std::move(packer).Finish();
}

Result<UniqueFd> PackFile(int fd, const std::string& name, uint64_t size, uint32_t mode) {
  ATOLL_ASSIGN(Packer packer, Packer::Start());
  struct stat info {};
  info.st_mode = S_IFREG | (mode & 0777);
  info.st_size = static_cast<off_t>(size);
  info.st_mtime = time(nullptr);
  ATOLL_TRY(packer.Add(fd, name, info, ""));
  return std::move(packer).Finish();
}

}  // namespace atl::cli
