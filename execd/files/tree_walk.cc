#include "execd/files/tree_walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "runtime/base/sys.h"

namespace atl::execd {
namespace {

// Uses getdents64, because readdir would allocate 32 KiB for every directory.
Status ReadNames(int dir, size_t limit, std::vector<std::string>* names) {
  alignas(8) char buffer[4096];
  size_t total = 0;
  for (;;) {
    const long n = ::syscall(SYS_getdents64, dir, buffer, sizeof buffer);
    if (n < 0) return FailSys("read directory");
    if (n == 0) return {};
    for (long at = 0; at < n;) {
      // struct linux_dirent64: ino 8, off 8, reclen 2, type 1, name.
      unsigned short record;
      std::memcpy(&record, buffer + at + 16, sizeof record);
      const std::string_view name(buffer + at + 19);
      at += record;
      if (name == "." || name == "..") continue;
      total += name.size() + sizeof(std::string);
      if (total > limit) {
        return Fail(Code::kResourceExhausted, "directory holds too many names");
      }
      names->emplace_back(name);
    }
  }
}

bool KernelFileSystem(int dir) {
  struct statfs info;
  if (::fstatfs(dir, &info) != 0) return true;
  return info.f_type == PROC_SUPER_MAGIC || info.f_type == SYSFS_MAGIC ||
         info.f_type == CGROUP_SUPER_MAGIC || info.f_type == CGROUP2_SUPER_MAGIC;
}

}  // namespace

TreeWalk::TreeWalk(UniqueFd root, int max_depth) : dir_(std::move(root)), max_depth_(max_depth) {}

bool TreeWalk::Enter(UniqueFd dir) {
  struct stat info;
  if (::fstat(dir.get(), &info) != 0) return false;
  if (!levels_.empty() && info.st_dev != levels_.back().device && KernelFileSystem(dir.get())) {
    return false;
  }
  Level level{info.st_dev, info.st_ino, {}, path_.size()};
  if (!ReadNames(dir.get(), kMaxNames, &level.names)) return false;
  std::sort(level.names.begin(), level.names.end(), std::greater<>());
  levels_.push_back(std::move(level));
  dir_ = std::move(dir);
  return true;
}

bool TreeWalk::Leave() {
  levels_.pop_back();
  if (levels_.empty()) return false;
  const Level& up = levels_.back();
  path_.resize(up.path_size);
  UniqueFd parent(::openat(dir_.get(), "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info;
  if (!parent || ::fstat(parent.get(), &info) != 0 || info.st_dev != up.device ||
      info.st_ino != up.inode) {
    return false;
  }
  dir_ = std::move(parent);
  return true;
}

bool TreeWalk::Next(Entry* entry) {
  if (!started_) {
    started_ = true;
    UniqueFd root = std::move(dir_);
    if (!Enter(std::move(root))) return whole_ = false;
  }
  if (!enter_.empty()) {
    const size_t before = path_.size();
    UniqueFd child(
        ::openat(dir_.get(), enter_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!path_.empty()) path_.push_back('/');
    path_.append(enter_);
    enter_.clear();
    if (!child || !Enter(std::move(child))) {
      path_.resize(before);
      whole_ = false;
    }
  }
  while (!levels_.empty()) {
    Level& level = levels_.back();
    if (level.names.empty()) {
      if (!Leave()) return false;
      continue;
    }
    const std::string name = std::move(level.names.back());
    level.names.pop_back();
    if (::fstatat(dir_.get(), name.c_str(), &entry->info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    entry->path.assign(path_);
    if (!path_.empty()) entry->path.push_back('/');
    entry->path.append(name);
    entry->name = std::string_view(entry->path).substr(entry->path.size() - name.size());
    entry->depth = static_cast<int>(levels_.size());
    if (S_ISDIR(entry->info.st_mode) && (max_depth_ == 0 || entry->depth < max_depth_)) {
      enter_ = name;
    }
    return true;
  }
  return false;
}

}  // namespace atl::execd
