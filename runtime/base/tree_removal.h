// The removal of a tree in pieces, so that whoever removes several can be fair between them.
//
// Follows no link and crosses no mount. Time is linear in the number of entries, whatever the
// shape; descriptors, memory and path lengths do not grow with a hostile tree: a directory that
// lies too deep to be kept open with all that are above it moves to `top` as "NAME.<n>", so nothing
// else there may have such names.
//
// Thread rule: one thread at a time.
#pragma once

#include <dirent.h>

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
  // Of `name` in the directory `top`, which is borrowed and outlives this.
  TreeRemoval(int top, std::string name) : top_(top), name_(std::move(name)) {
    left_.insert(name_);
  }

  // One more name in `top` that belongs to the same tree: what an earlier removal has moved there.
  void Add(std::string name) { left_.insert(std::move(name)); }

  // Goes on until `until_us` (CLOCK_BOOTTIME), and by one entry at least. True: nothing is left,
  // also if there was nothing.
  Result<bool> Continue(int64_t until_us);

 private:
  struct CloseDirectory {
    void operator()(DIR* directory) const { ::closedir(directory); }
  };
  struct Level {
    std::string name;  // in the level before, or in `top`
    std::unique_ptr<DIR, CloseDirectory> entries;
  };

  Status Step();
  Status Enter(int parent, const std::string& name);
  Status Leave();
  Status RemoveEntry(const dirent& entry);

  const int top_;
  const std::string name_;
  std::set<std::string> left_;  // names in `top`; what moved there comes before `name_` itself
  std::vector<Level> open_;     // from `top` downwards
  uint64_t moved_ = 0;
};

}  // namespace atl
