// Removes a tree in pieces, so that a caller that removes several can be fair between them.
//
// Follows no link and crosses no mount. Time is linear in the number of entries, whatever the
// shape. Descriptors, memory and path lengths do not grow with a hostile tree: a directory that is
// too deep to be kept open with all of its parents is moved to the root of the tree. Nothing
// outside of the tree is touched, even if others move parts of it meanwhile.
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
  // Removes `name` in the directory `top`, which is borrowed and must outlive this object.
  TreeRemoval(int top, std::string name) : top_(top), name_(std::move(name)) {
    left_.insert(name_);
  }

  // Adds a name in `top` that belongs to the same tree. `name` itself is removed last.
  void Add(std::string name) { left_.insert(std::move(name)); }

  // Continues until `until_us` (CLOCK_BOOTTIME), for at least one entry. Returns true if nothing is
  // left, even if there was nothing.
  Result<bool> Continue(int64_t until_us);

 private:
  struct Level {
    std::string name;  // its name in the level before, or in `top`
    UniqueFd directory;
    std::unique_ptr<char[]> entries;  // entries read last
    size_t at = 0, end = 0;
  };

  Status Step();
  Status Enter(int parent, const std::string& name);
  Status Leave();
  Status RemoveEntry(const dirent64& entry);
  Result<bool> MoveUp(int directory, const char* name);

  const int top_;
  const std::string name_;
  std::set<std::string> left_;  // names in `top`; added ones are removed before `name_` itself
  std::vector<Level> open_;     // open levels, ordered from `top` downwards
  std::string prefix_;          // prefix of unpredictable names in the tree's root
  uint64_t moved_ = 0;
  bool again_ = false;  // the root got entries that its listing may have passed already
};

}  // namespace atl
