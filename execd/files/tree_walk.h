// Walks a tree of the sandbox's while the sandbox may be changing it.
#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::execd {

// Parents before children, names in byte order. Links are reported, never followed. One directory
// is open at a time, however deep: the way up is by "..", and if that does not lead back to where
// the walk came from (somebody moved the directory), the walk ends there. What cannot be read is
// passed over. proc, sysfs and cgroup mounts beneath the root are reported but not entered.
class TreeWalk {
 public:
  // Names of one directory may take this much memory; more is an error.
  static constexpr size_t kMaxNames = 16 << 20;

  struct Entry {
    std::string path;  // relative to the root
    std::string_view name;
    int depth = 1;  // children of the root
    struct stat info;
  };

  // `root` is a directory, opened for reading. `max_depth` 0: no limit.
  TreeWalk(UniqueFd root, int max_depth);
  // False at the end.
  bool Next(Entry* entry);
  // False if something has been passed over, or the walk has ended before its end.
  bool whole() const { return whole_ && levels_.empty(); }
  // The directory of the entry that Next gave last.
  int dir() const { return dir_.get(); }
  // The entry that Next gave last is a directory that should not be entered.
  void SkipChildren() { enter_.clear(); }

 private:
  struct Level {
    dev_t device;
    ino_t inode;
    std::vector<std::string> names;  // from the back: what is left
    size_t path_size;                // of the directory's own relative path
  };
  bool Enter(UniqueFd dir);
  bool Leave();

  UniqueFd dir_;
  int max_depth_;
  std::vector<Level> levels_;
  std::string path_;   // of the present directory, relative
  std::string enter_;  // the directory to enter at the next step
  bool started_ = false;
  bool whole_ = true;
};

}  // namespace atl::execd
