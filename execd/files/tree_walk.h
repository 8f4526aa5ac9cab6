// Walks a directory tree while the sandbox may change it.
#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

// Visits parents before children, and names in byte order. Reports links and does not follow them.
// Keeps one directory open at any depth and returns to the parent by "..". If ".." leads to another
// directory, because the current one was moved, the walk ends. Skips what it cannot read. Reports
// proc, sysfs and cgroup mounts below the root, but does not enter them.
class TreeWalk {
 public:
  // Limit on the memory for names of one directory. More is an error.
  static constexpr size_t kMaxNames = 16 << 20;

  struct Entry {
    std::string path;  // relative to the root
    std::string_view name;
    int depth = 1;  // children of the root have 1
    struct stat info;
  };

  // `root` is a directory, opened for reading. `max_depth` 0 means no limit.
  TreeWalk(UniqueFd root, int max_depth);
  // Returns false at the end.
  bool Next(Entry* entry);
  // False if the walk has skipped something or has ended early.
  bool whole() const { return whole_ && levels_.empty(); }
  // The directory of the last entry from Next. Borrowed.
  int dir() const { return dir_.get(); }
  // Do not enter the directory that Next returned last.
  void SkipChildren() { enter_.clear(); }

 private:
  struct Level {
    dev_t device;
    ino_t inode;
    std::vector<std::string> names;  // remaining names, last one first
    size_t path_size;                // size of the directory's relative path
  };
  bool Enter(UniqueFd dir);
  bool Leave();

  UniqueFd dir_;
  int max_depth_;
  std::vector<Level> levels_;
  std::string path_;   // relative path of the current directory
  std::string enter_;  // the directory to enter at the next step
  bool started_ = false;
  bool whole_ = true;
};

}  // namespace atl::execd
