#include "runtime/spawner/root/volume_fill.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/sys.h"

namespace atl::spawner {
namespace {

// Bounds on what a client waits for while its sandbox is created. A data directory of a package has
// a few hundred files.
constexpr size_t kMostEntries = 50'000;
constexpr uint64_t kMostBytes = uint64_t{1} << 30;
constexpr int64_t kMostMicros = 5'000'000;
constexpr size_t kMostDepth = 64;
constexpr size_t kFillBuffer = 256 << 10;
constexpr mode_t kNewMode = 0777;  // mode that Store::MakeVolume sets

// The image is a stranger's, and other sandboxes may change the volume meanwhile. So no link is
// followed, and every name is looked up in an open directory.
class Filling {
 public:
  Status Fill(int from, int to, size_t depth);
  // Returns whether it has ended because of a bound.
  bool too_much() const { return too_much_; }
  // Names that it has made in the volume's top directory. Other names there belong to another
  // sandbox, which may write to the volume meanwhile.
  const std::vector<std::string>& made() const { return made_; }

 private:
  Status Entry(int from, int to, const std::string& name, size_t depth);
  Status CopyFile(int from, int to, const std::string& name, const struct stat& now);
  Status TooMuch() {
    too_much_ = true;
    return Fail(Code::kResourceExhausted, "too much to copy into a volume");
  }

  bool too_much_ = false;
  std::vector<std::string> made_;
  size_t entries_ = 0;
  uint64_t bytes_ = 0;
  const int64_t until_ = SystemClock().BootMicros() + kMostMicros;
  std::string buffer_ = std::string(kFillBuffer, '\0');
};

Status Describe(int fd, const struct stat& now, const std::string& name) {
  // chown clears the set-id bits, so it comes first.
  if (::fchown(fd, now.st_uid, now.st_gid) != 0) return FailSys("chown " + name);
  if (::fchmod(fd, now.st_mode & 07777) != 0) return FailSys("chmod " + name);
  const timespec times[2] = {now.st_mtim, now.st_mtim};
  if (::futimens(fd, times) != 0) return FailSys("utimens " + name);
  return {};
}

Status Filling::CopyFile(int from, int to, const std::string& name, const struct stat& now) {
  bytes_ += static_cast<uint64_t>(now.st_size);
  if (bytes_ > kMostBytes) return TooMuch();
  ATOLL_ASSIGN(const UniqueFd source, sys::OpenAt(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
  ATOLL_ASSIGN(const UniqueFd copy, sys::OpenAt(to, name, kNew, 0600));
  for (off_t left = now.st_size; left > 0;) {
    const ssize_t n = TEMP_FAILURE_RETRY(::read(source.get(), buffer_.data(), buffer_.size()));
    if (n < 0) return FailSys("read " + name);
    if (n == 0) break;
    ATOLL_TRY(sys::WriteAll(copy.get(), std::string_view(buffer_.data(), static_cast<size_t>(n))));
    left -= n;
    if (SystemClock().BootMicros() > until_) return TooMuch();
  }
  return Describe(copy.get(), now, name);
}

Status Filling::Entry(int from, int to, const std::string& name, size_t depth) {
  if (++entries_ > kMostEntries || SystemClock().BootMicros() > until_) return TooMuch();
  struct stat now {};
  if (::fstatat(from, name.c_str(), &now, AT_SYMLINK_NOFOLLOW) != 0) return FailSys("stat " + name);
  if (S_ISREG(now.st_mode)) return CopyFile(from, to, name, now);
  if (S_ISDIR(now.st_mode)) {
    if (depth == kMostDepth) return TooMuch();
    constexpr int kDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;
    ATOLL_ASSIGN(const UniqueFd source, sys::OpenAt(from, name, kDirectory));
    if (::mkdirat(to, name.c_str(), 0700) != 0) return FailSys("mkdir " + name);
    ATOLL_ASSIGN(const UniqueFd copy, sys::OpenAt(to, name, kDirectory));
    ATOLL_TRY(Fill(source.get(), copy.get(), depth + 1));
    return Describe(copy.get(), now, name);
  }
  if (S_ISLNK(now.st_mode)) {
    const ssize_t n = ::readlinkat(from, name.c_str(), buffer_.data(), buffer_.size());
    if (n < 0) return FailSys("readlink " + name);
    const std::string target(buffer_.data(), static_cast<size_t>(n));
    if (::symlinkat(target.c_str(), to, name.c_str()) != 0) return FailSys("symlink " + name);
  } else if (S_ISFIFO(now.st_mode)) {
    if (::mknodat(to, name.c_str(), S_IFIFO | (now.st_mode & 07777), 0) != 0) {
      return FailSys("mkfifo " + name);
    }
  } else {
    return {};  // a socket belongs to a process
  }
  if (::fchownat(to, name.c_str(), now.st_uid, now.st_gid, AT_SYMLINK_NOFOLLOW) != 0) {
    return FailSys("chown " + name);
  }
  return {};
}

Status Filling::Fill(int from, int to, size_t depth) {
  std::vector<std::string> names;
  ATOLL_TRY(sys::EachName(from, [&names, this](const char* name) {
    names.emplace_back(name);
    return entries_ + names.size() <= kMostEntries;
  }));
  for (const std::string& name : names) {
    if (depth == 0) made_.push_back(name);
    ATOLL_TRY(Entry(from, to, name, depth));
  }
  return {};
}

Result<bool> IsEmpty(int directory) {
  bool empty = true;
  ATOLL_TRY(sys::EachName(directory, [&empty](const char*) { return empty = false; }));
  return empty;
}

}  // namespace

Status FillVolume(int image, int volume, uid_t owner) {
  struct stat now {
  }, there{};
  if (::fstat(volume, &now) != 0 || ::fstat(image, &there) != 0) return FailSys("fstat");
  if (now.st_uid != owner || now.st_gid != owner || (now.st_mode & 07777) != kNewMode) return {};
  ATOLL_ASSIGN(const UniqueFd to, sys::OpenAt(volume, ".", O_RDONLY | O_DIRECTORY));
  ATOLL_ASSIGN(const bool empty, IsEmpty(to.get()));
  if (!empty) return {};
  ATOLL_ASSIGN(const UniqueFd from, sys::OpenAt(image, ".", O_RDONLY | O_DIRECTORY));
  Filling filling;
  const Status filled = filling.Fill(from.get(), to.get(), 0);
  if (filled) return Describe(to.get(), there, "the volume");
  // Another sandbox fills or uses the volume by now.
  if (filled.error().error_number() == EEXIST) return {};
  for (const std::string& name : filling.made()) ATOLL_TRY(sys::RemoveTree(to.get(), name));
  return filling.too_much() ? Status() : filled;
}

}  // namespace atl::spawner
