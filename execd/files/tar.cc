#include "execd/files/tar.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "execd/files/files.h"
#include "execd/files/tar_format.h"
#include "execd/files/tree_walk.h"
#include "runtime/base/sparse_file.h"
#include "runtime/base/sys.h"

namespace atl::execd {
namespace {

class TarOutput : public Producer {
 public:
  TarOutput(Identity as, UniqueFd root) : as_(std::move(as)), walk_(std::move(root), 0) {}

  bool Produce(std::string* out) override {
    const FileIdentity as(as_);
    if (entries_.unfinished()) {
      entries_.Continue(out);
      return true;
    }
    if (!walk_.Next(&entry_)) {
      TarEntries::End(out);
      return false;
    }
    // Unreadable files are skipped, as in the walk.
    [[maybe_unused]] const Status begun =
        entries_.Begin(out, walk_.dir(), std::string(entry_.name), entry_.path, entry_.info);
    return true;
  }

 private:
  const Identity as_;
  TreeWalk walk_;
  TreeWalk::Entry entry_;
  TarEntries entries_;
};

// Returns "a/b/c" for "a/./b//c". Returns nullopt for names that lead out, are absolute, or are
// empty.
std::optional<std::string> CleanName(std::string_view name) {
  std::string out;
  while (!name.empty()) {
    const size_t end = name.find('/');
    const std::string_view part = name.substr(0, end);
    name = end == std::string_view::npos ? std::string_view() : name.substr(end + 1);
    if (part.empty() || part == ".") continue;
    if (part == "..") return {};
    if (!out.empty()) out.push_back('/');
    out.append(part);
  }
  return out;
}

// Unpacks below one directory. openat2 with RESOLVE_BENEATH resolves every name and follows no
// link, so that a link in the archive, or one created meanwhile, leads nowhere.
class TarInput : private TarReader::Sink {
 public:
  TarInput(Identity as, bool owners, UniqueFd root)
      : as_(std::move(as)), owners_(owners), root_(std::move(root)) {}

  Status Feed(std::string_view bytes) {
    const FileIdentity as(as_);
    return reader_.Feed(bytes);
  }
  bool complete() const { return reader_.complete(); }
  uint64_t entries() const { return entries_; }

 private:
  Result<UniqueFd> Beneath(const std::string& path, int flags) {
    return path.empty() ? sys::OpenAt(root_.get(), ".", flags)
                        : sys::OpenBeneath(root_.get(), path, flags);
  }

  // Opens the parent directory of `name`, creating it as needed, and returns it with the last part
  // of the name.
  Result<Place> Parent(const std::string& name) {
    const size_t slash = name.rfind('/');
    const std::string parent = slash == std::string::npos ? "" : name.substr(0, slash);
    auto dir = Beneath(parent, O_PATH | O_DIRECTORY);
    for (size_t at = 0; !dir && dir.error().error_number() == ENOENT && at != std::string::npos;) {
      at = parent.find('/', at + 1);
      const std::string piece = parent.substr(0, at);
      ATOLL_ASSIGN(const Place place, Parent(piece));
      if (::mkdirat(place.dir.get(), place.name.c_str(), 0755) != 0 && errno != EEXIST) {
        return FailSys("mkdir " + piece);
      }
      dir = Beneath(parent, O_PATH | O_DIRECTORY);
    }
    if (!dir) return Fail(std::move(dir).error());
    return Place{std::move(*dir), slash == std::string::npos ? name : name.substr(slash + 1)};
  }

  Status OnEntry(const TarEntry& entry) override {
    ++entries_;
    const auto name = CleanName(entry.name);
    if (!name || entry.name.starts_with('/') || entry.name.find('\0') != std::string::npos) {
      return Fail(Code::kInvalidArgument, "tar: name '" + entry.name + "' leads out");
    }
    if (name->empty()) return {};  // the root directory itself
    switch (entry.type) {
      case '0':
        return BeginFile(*name, entry);
      case '1':
        return HardLink(*name, entry);
      case '2':
        return SymbolicLink(*name, entry);
      case '5':
        return Directory(*name, entry);
      default:
        return Fail(Code::kInvalidArgument, "tar: '" + entry.name + "': type '" +
                                                std::string(1, entry.type) + "' is not taken");
    }
  }

  Status BeginFile(const std::string& name, const TarEntry& entry) {
    ATOLL_ASSIGN(const Place place, Parent(name));
    // Always creates a new file, because the old one may be a link, a FIFO or a running program.
    if (::unlinkat(place.dir.get(), place.name.c_str(), 0) != 0 && errno != ENOENT) {
      return FailSys("replace " + name);
    }
    file_.reset(::openat(place.dir.get(), place.name.c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file_) return FailSys("create " + name);
    mode_ = entry.mode;
    mtime_ = entry.mtime;
    return Own(file_.get(), "", entry);
  }
  Status OnData(std::string_view bytes) override {
    return file_ ? WriteWithHoles(file_.get(), bytes) : Status();
  }
  Status OnEntryEnd() override {
    if (!file_) return {};
    ATOLL_TRY(EndWithHoles(file_.get()));
    // Set-id bits are not restored unless owners are.
    if (::fchmod(file_.get(), mode_ & (owners_ ? 07777 : 0777)) != 0) return FailSys("chmod");
    const timespec times[2] = {{0, UTIME_OMIT}, {static_cast<time_t>(mtime_), 0}};
    ::futimens(file_.get(), times);
    file_.reset();
    return {};
  }

  Status HardLink(const std::string& name, const TarEntry& entry) {
    const auto target = CleanName(entry.link);
    if (!target || target->empty() || entry.link.starts_with('/')) {
      return Fail(Code::kInvalidArgument, "tar: link to '" + entry.link + "' leads out");
    }
    ATOLL_ASSIGN(const Place from, Parent(*target));
    ATOLL_ASSIGN(const Place to, Parent(name));
    ::unlinkat(to.dir.get(), to.name.c_str(), 0);
    if (::linkat(from.dir.get(), from.name.c_str(), to.dir.get(), to.name.c_str(), 0) != 0) {
      return FailSys("link " + name);
    }
    return {};
  }
  Status SymbolicLink(const std::string& name, const TarEntry& entry) {
    ATOLL_ASSIGN(const Place place, Parent(name));
    ::unlinkat(place.dir.get(), place.name.c_str(), 0);
    if (::symlinkat(entry.link.c_str(), place.dir.get(), place.name.c_str()) != 0) {
      return FailSys("symlink " + name);
    }
    return Own(place.dir.get(), place.name, entry);
  }
  Status Directory(const std::string& name, const TarEntry& entry) {
    ATOLL_ASSIGN(const Place place, Parent(name));
    if (::mkdirat(place.dir.get(), place.name.c_str(), (entry.mode & 0777) | 0700) != 0) {
      return errno == EEXIST ? Status() : FailSys("mkdir " + name);
    }
    if (!owners_) return {};
    ATOLL_TRY(Own(place.dir.get(), place.name, entry));
    ATOLL_ASSIGN(const UniqueFd made,
                 sys::OpenAt(place.dir.get(), place.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    if (::fchmod(made.get(), entry.mode & 07777) != 0) return FailSys("chmod " + name);
    return {};
  }
  // Sets the owner of the new entry. `at` is its directory, or the entry itself if `name` is empty.
  Status Own(int at, const std::string& name, const TarEntry& entry) const {
    if (!owners_) return {};
    const int flags = name.empty() ? AT_EMPTY_PATH : AT_SYMLINK_NOFOLLOW;
    if (::fchownat(at, name.c_str(), entry.uid, entry.gid, flags) != 0) {
      return FailSys("chown " + entry.name);
    }
    return {};
  }

  const Identity as_;
  const bool owners_;
  UniqueFd root_;
  TarReader reader_{this};
  UniqueFd file_;
  uint32_t mode_ = 0;
  int64_t mtime_ = 0;
  uint64_t entries_ = 0;
};

// Returns the `path` parameter as an absolute path. Answers an error and returns nullopt if there
// is none.
std::optional<std::string> PathOf(Core* core, Exchange* exchange) {
  const std::string* given = exchange->QueryValue("path");
  if (!given || given->empty()) {
    exchange->RespondError(400, "MISSING_QUERY", "missing query parameter 'path'");
    return {};
  }
  const auto path = LiteralPath(*given, core->Home());
  if (!path) {
    exchange->RespondError(400, "INVALID_REQUEST_BODY", path.error().message());
    return {};
  }
  return AbsolutePath(*core, *path);
}

// Returns true if the archive's owners are to be restored. Root then unpacks the archive, otherwise
// the image's user.
bool WithOwners(const Exchange& exchange) {
  const std::string* owners = exchange.QueryValue("owners");
  return owners != nullptr && *owners == "true";
}

}  // namespace

Status TarEntries::Begin(std::string* out, int dir, const std::string& name, std::string path,
                         const struct stat& info) {
  TarEntry entry;
  entry.name = std::move(path);
  entry.mode = info.st_mode & 07777;
  entry.uid = info.st_uid;
  entry.gid = info.st_gid;
  entry.mtime = info.st_mtim.tv_sec;
  if (S_ISDIR(info.st_mode)) {
    entry.type = '5';
    entry.name.push_back('/');
  } else if (S_ISLNK(info.st_mode)) {
    char target[4096];
    const ssize_t n = ::readlinkat(dir, name.c_str(), target, sizeof target);
    if (n <= 0) return FailSys("readlink " + entry.name);
    entry.type = '2';
    entry.link.assign(target, static_cast<size_t>(n));
  } else if (S_ISREG(info.st_mode)) {
    ATOLL_ASSIGN(UniqueFd file,
                 sys::OpenAt(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    struct stat now;
    if (::fstat(file.get(), &now) != 0) return FailSys("fstat " + entry.name);
    if (!S_ISREG(now.st_mode)) return Fail(Code::kFailedPrecondition, entry.name + " has changed");
    entry.size = left_ = static_cast<uint64_t>(now.st_size);
    padding_ = (kTarBlock - left_ % kTarBlock) % kTarBlock;
    if (left_ > 0) file_ = std::move(file);
  } else {
    return {};
  }
  AppendTarHeader(out, entry);
  return {};
}

void TarEntries::Continue(std::string* out) {
  constexpr uint64_t kPart = 64 << 10;
  const size_t start = out->size();
  const auto wanted = static_cast<size_t>(std::min(kPart, left_));
  out->resize(start + wanted);
  const ssize_t n = ::read(file_.get(), out->data() + start, wanted);
  if (n > 0) {
    out->resize(start + static_cast<size_t>(n));
    left_ -= static_cast<uint64_t>(n);
  } else {
    left_ -= wanted;
  }
  if (left_ > 0) return;
  out->append(static_cast<size_t>(padding_), '\0');
  file_.reset();
}

void TarEntries::End(std::string* out) {
  out->append(2 * kTarBlock, '\0');
}

void DownloadTar(Core* core, const std::shared_ptr<Exchange>& exchange) {
  const auto path = PathOf(core, exchange.get());
  if (!path) return;
  const Identity who = WithOwners(*exchange) ? Identity() : core->user;
  const FileIdentity as(who);
  auto dir = OpenDirectory(*path, who);
  auto root = dir ? sys::OpenAt(dir->get(), ".", O_RDONLY | O_DIRECTORY) : std::move(dir);
  if (!root) {
    if (root.error().error_number() == ENOTDIR) {
      exchange->RespondError(400, "INVALID_REQUEST_BODY", *path + ": is not a directory");
    } else {
      RespondFileError(exchange.get(), root.error());
    }
    return;
  }
  RunProducer(&core->loop, exchange, std::make_unique<TarOutput>(who, std::move(*root)),
              {{"Content-Type", "application/x-tar"}});
}

void UploadTar(Core* core, const std::shared_ptr<Exchange>& exchange) {
  const auto path = PathOf(core, exchange.get());
  if (!path) return;
  const bool owners = WithOwners(*exchange);
  const Identity who = owners ? Identity() : core->user;
  auto made = MakeDirectory(*path, who);
  auto root = made ? sys::OpenAt(made->get(), ".", O_RDONLY | O_DIRECTORY) : std::move(made);
  if (!root) {
    exchange->RespondError(500, "RUNTIME_ERROR", root.error().message());
    return;
  }
  auto input = std::make_shared<TarInput>(who, owners, std::move(*root));
  Exchange* x = exchange.get();
  exchange->StreamBody(
      [input, x](std::string_view bytes) {
        if (x->started()) return;
        const Status fed = input->Feed(bytes);
        if (fed) return;
        const bool theirs = fed.error().error_number() == 0;
        x->RespondError(theirs ? 400 : 500, theirs ? "INVALID_FILE_CONTENT" : "RUNTIME_ERROR",
                        fed.error().message());
      },
      [input, x] {
        if (x->started()) return;
        if (!input->complete()) {
          x->RespondError(400, "INVALID_FILE_CONTENT", "tar: ends in the middle of an entry");
          return;
        }
        std::string body = "{\"entries\":";
        AppendJsonInteger(&body, static_cast<int64_t>(input->entries()));
        body.push_back('}');
        x->RespondJson(200, body);
      });
}

}  // namespace atl::execd
