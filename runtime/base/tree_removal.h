// The removal of a tree in pieces, so that whoever removes several can be fair between them.
//
// Follows no link and crosses no mount. Time is linear in the number of entries, whatever the
// shape; descriptors, memory and path lengths do not grow with a hostile tree: a directory that
// lies too deep to be kept open with all that are above it moves up to the root of the tree.
// Nothing outside of the tree is touched, whoever moves parts of it about meanwhile.
//
// Thread rule: one thread at a time.
#pragma once

#include <dirent.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl {

class TreeRemoval {
 public:
  // Removes `name` in the directory `top`, which is borrowed and outlives this.
  TreeRemoval(int top, std::string name) : top_(top), name_(std::move(name)) {
    left_.insert(name_);
  }

  // One more name in `top` that belongs to the same tree; `name` itself goes last.
  void Add(std::string name) { left_.insert(std::move(name)); }

  // Goes on until `until_us` (CLOCK_BOOTTIME), and by one entry at least. True: nothing is left,
  // also if there was nothing.
  Result<bool> Continue(int64_t until_us);

 private:
  struct Level {
    std::string name;  // in the level before, or in `top`
    UniqueFd directory;
    std::unique_ptr<char[]> entries;  // what was read of it last
    size_t at = 0, end = 0;
  };

  Status Step();
  Status Enter(int parent, const std::string& name);
  Status Leave();
  Status RemoveEntry(const dirent64& entry);
  Result<bool> MoveUp(int directory, const char* name);

  const int top_;
  const std::string name_;
  std::set<std::string> left_;  // names in `top`; those that were added come before `name_` itself
  std::vector<Level> open_;     // from `top` downwards
  std::string prefix_;          // of names in the tree's root that nobody can guess
  uint64_t moved_ = 0;
  bool again_ = false;  // the root has entries that its reading may have passed already
};

}  // namespace atl
