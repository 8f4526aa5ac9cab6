#include "images/unpack/tree_diff.h"

#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <utility>

#include "images/report.h"
#include "images/unpack/entry_path.h"
#include "images/unpack/tree.h"
#include "images/unpack/tree_copy.h"
#include "runtime/base/sys.h"

namespace atl::images::unpack {
namespace {

constexpr int kDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;

// Returns true for errors that mean that a file has vanished since its directory was read.
bool Vanished(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP || error == ESTALE || error == ENXIO;
}

bool HidesBelow(int directory) {
  char value = 0;
  return ::fgetxattr(directory, "user.overlay.opaque", &value, 1) == 1 && value == 'y';
}

// Compares two files. One of them may be changing, so the result may be outdated.
Result<bool> SameContent(int a, int b) {
  constexpr size_t kChunk = 64 << 10;
  static char left[kChunk], right[kChunk];
  for (off_t at = 0;;) {
    const ssize_t n = TEMP_FAILURE_RETRY(::pread(a, left, kChunk, at));
    if (n < 0) return FailSys("pread");
    if (n == 0) return true;
    if (TEMP_FAILURE_RETRY(::pread(b, right, static_cast<size_t>(n), at)) != n) return false;
    if (!std::equal(left, left + n, right)) return false;
    at += n;
  }
}

Result<std::map<std::string, std::string>> XattrsOf(int fd) {
  std::map<std::string, std::string> all;
  ATOLL_TRY(EachKeptXattr(fd, [&all](const char* name, std::string_view value) -> Status {
    all.emplace(name, value);
    return {};
  }));
  return all;
}

// Compares everything except the times of two open files or directories.
Result<bool> SameInside(int a, int b, bool content) {
  ATOLL_ASSIGN(const auto left, XattrsOf(a));
  ATOLL_ASSIGN(const auto right, XattrsOf(b));
  if (left != right) return false;
  if (!content) return true;
  return SameContent(a, b);
}

bool SameLink(int a, int b, const std::string& name) {
  std::string left(kMaxPath + 1, '\0'), right = left;
  const ssize_t n = ::readlinkat(a, name.c_str(), left.data(), left.size());
  return n >= 0 && ::readlinkat(b, name.c_str(), right.data(), right.size()) == n && left == right;
}

}  // namespace

Status EachKeptXattr(int fd,
                     const std::function<Status(const char* name, std::string_view value)>& each) {
  std::string names(kMaxXattrs, '\0'), value(kMaxXattrs, '\0');
  const ssize_t size = ::flistxattr(fd, names.data(), names.size());
  if (size < 0) return FailSys("listxattr");
  std::string_view left(names.data(), static_cast<size_t>(size));
  for (; !left.empty(); left.remove_prefix(left.find('\0') + 1)) {
    // overlayfs's own attributes are skipped: what they hide is reported as deleted.
    const std::string_view name = left.substr(0, left.find('\0'));
    if (!IsCopied(name) || name.starts_with("user.overlay.")) continue;
    const ssize_t n = ::fgetxattr(fd, left.data(), value.data(), value.size());
    if (n < 0 && errno == ENODATA) continue;
    if (n < 0) return FailSys("getxattr " + Printable(name, 80));
    ATOLL_TRY(each(left.data(), std::string_view(value.data(), static_cast<size_t>(n))));
  }
  return {};
}

Status TreeDiff::Run(const std::vector<StackedLayer>& layers) {
  Place top{{}, "", "", nullptr, 0, {}, -1, true};
  for (const StackedLayer& layer : layers) {
    // Opened again, because the descriptor of a mount is O_PATH.
    ATOLL_ASSIGN(UniqueFd directory, sys::OpenAt(layer.directory, ".", O_RDONLY | O_DIRECTORY));
    top.parts.push_back({std::move(directory), layer.now, layer.was});
  }
  return Walk(top);
}

Status TreeDiff::Walk(const Place& place) {
  if (place.depth > kMaxDepth) {
    return Fail(Code::kInvalidArgument, "it is nested deeper than " + std::to_string(kMaxDepth) +
                                            " directories: " + Printable(place.path, 80));
  }
  std::set<std::string> names;
  for (const Part& part : place.parts) {
    // A part that both stacks see matters only for names that another part has too.
    if (part.now && part.was) continue;
    ATOLL_ASSIGN(std::vector<std::string> some, sys::ListDir(part.directory.get()));
    names.insert(std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
  }
  for (const std::string& name : names) ATOLL_TRY(Compare(place, name));
  return {};
}

Result<std::optional<TreeDiff::Found>> TreeDiff::Look(const Place& place, const std::string& name,
                                                      bool Part::*stack) {
  std::optional<Found> found;
  for (size_t i = 0; i < place.parts.size(); ++i) {
    const Part& part = place.parts[i];
    if (!(part.*stack)) continue;
    struct stat status {};
    const int directory = part.directory.get();
    if (::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      if (Vanished(errno)) continue;
      return FailSys("stat " + Printable(name, 80));
    }
    if (found && !S_ISDIR(status.st_mode)) break;
    if (IsWhiteout(status)) break;
    if (!found) found = Found{i, status, {}};
    if (!S_ISDIR(status.st_mode)) break;
    found->merged.push_back(i);
    const auto opened = sys::OpenAt(directory, name, kDirectory);
    if (opened && HidesBelow(opened->get())) break;
  }
  return found;
}

Status TreeDiff::Compare(const Place& place, const std::string& name) {
  const std::string path = place.path.empty() ? name : place.path + "/" + name;
  if (++entries_ > limits_.max_entries) {
    return Fail(Code::kResourceExhausted, "more than " + std::to_string(limits_.max_entries) +
                                              " files and directories would have to be compared");
  }
  if (path.size() > kMaxPath) {
    return Fail(Code::kInvalidArgument, "a path is longer than " + std::to_string(kMaxPath) +
                                            " bytes: " + Printable(path, 80));
  }
  ATOLL_ASSIGN(const std::optional<Found> now, Look(place, name, &Part::now));
  ATOLL_ASSIGN(const std::optional<Found> was, Look(place, name, &Part::was));
  if ((!now && !was) || IsOfOneSandbox(path)) return {};
  if (!now) return Told(place, Change::Kind::kDeleted, path, name, *was);
  // Both stacks see the same file, and below it nothing that only one of them sees.
  if (was && now->part == was->part) return {};
  bool told = false;
  bool same = false;
  if (was) {
    ATOLL_ASSIGN(same, Same(place, name, *now, *was));
  }
  if (!same) {
    const auto kind = was ? Change::Kind::kModified : Change::Kind::kAdded;
    ATOLL_TRY(Told(place, kind, path, name, *now));
    told = true;
  }
  if (!S_ISDIR(now->status.st_mode)) return {};
  return Descend(place, name, *now, was, told);
}

Status TreeDiff::Descend(const Place& place, const std::string& name, const Found& now,
                         const std::optional<Found>& was, bool told) {
  Place below{{},
              place.path.empty() ? name : place.path + "/" + name,
              name,
              &place,
              place.depth + 1,
              now.status,
              place.parts[now.part].directory.get(),
              told};
  const auto in = [](const std::vector<size_t>& list, size_t part) {
    return std::find(list.begin(), list.end(), part) != list.end();
  };
  for (size_t i = 0; i < place.parts.size(); ++i) {
    const bool of_now = in(now.merged, i), of_was = was && in(was->merged, i);
    if (!of_now && !of_was) continue;
    auto directory = sys::OpenAt(place.parts[i].directory.get(), name, kDirectory);
    if (directory) {
      below.parts.push_back({std::move(*directory), of_now, of_was});
    } else if (!Vanished(directory.error().error_number())) {
      return Fail(std::move(directory).error());
    }
  }
  return Walk(below);
}

Result<bool> TreeDiff::Same(const Place& place, const std::string& name, const Found& now,
                            const Found& was) {
  const struct stat &a = now.status, &b = was.status;
  if (a.st_mode != b.st_mode || a.st_uid != b.st_uid || a.st_gid != b.st_gid) return false;
  const bool directory = S_ISDIR(a.st_mode), file = S_ISREG(a.st_mode);
  // The times of a directory change with its entries, and those are reported.
  if (!directory && (a.st_mtim.tv_sec != b.st_mtim.tv_sec ||
                     a.st_mtim.tv_nsec != b.st_mtim.tv_nsec || a.st_size != b.st_size)) {
    return false;
  }
  const int left = place.parts[now.part].directory.get();
  const int right = place.parts[was.part].directory.get();
  if (S_ISLNK(a.st_mode)) return SameLink(left, right, name);
  if (!directory && !file) return a.st_rdev == b.st_rdev;
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK;
  const auto one = sys::OpenAt(left, name, kFlags), other = sys::OpenAt(right, name, kFlags);
  for (const auto* opened : {&one, &other}) {
    if (*opened) continue;
    if (Vanished(opened->error().error_number())) return false;
    return Fail(opened->error());
  }
  return SameInside(one->get(), other->get(), file);
}

Status TreeDiff::TellParents(const Place& place) {
  if (place.told) return {};
  ATOLL_TRY(TellParents(*place.above));
  place.told = true;
  return tell_({Change::Kind::kModified, place.path, place.status, place.directory, place.name});
}

Status TreeDiff::Told(const Place& place, Change::Kind kind, const std::string& path,
                      const std::string& name, const Found& found) {
  if (parents_) ATOLL_TRY(TellParents(place));
  return tell_({kind, path, found.status, place.parts[found.part].directory.get(), name});
}

}  // namespace atl::images::unpack
