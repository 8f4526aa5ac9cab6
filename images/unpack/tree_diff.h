// What differs between two stacks of layers, as a sandbox would see each: what one has and the
// other has not, or has otherwise. Layers that both have at the bottom are looked into only where
// something above them asks, so that a comparison costs what has changed and not what there is.
//
// All of it is a stranger's, and one layer may be a running sandbox's upper directory: every path
// is walked one component at a time from a descriptor, no link is followed, depth and numbers are
// bounded, and what vanishes meanwhile counts as not there.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "images/unpack/limits.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::images::unpack {

// One layer of either stack or of both. Order: topmost first, so that of each stack the layers
// follow each other as they lie.
struct StackedLayer {
  int directory;  // borrowed
  bool now;       // of the stack that is told about
  bool was;       // of the one that it is compared with
};

struct Change {
  enum class Kind { kAdded, kModified, kDeleted };
  Kind kind;
  std::string_view path;  // from the top, no slash in front
  // As it is now; of what was deleted, as it was.
  const struct stat& status;
  // Where it is: a directory and the name in it.
  int directory;
  const std::string& name;
};

class TreeDiff {
 public:
  using Tell = std::function<Status(const Change&)>;

  // `tell` hears of parents before what is in them, and of what is deleted with a directory not
  // singly. Of the limits that of entries counts. With `parents`, it also hears, as kModified, of
  // unchanged directories that hold changes.
  TreeDiff(const ExtractLimits& limits, bool parents, Tell tell)
      : limits_(limits), parents_(parents), tell_(std::move(tell)) {}
  Status Run(const std::vector<StackedLayer>& layers);

  uint64_t entries() const { return entries_; }  // that were looked at

 private:
  // A directory of one layer, and in which of the stacks it is seen.
  struct Part {
    UniqueFd directory;
    bool now;
    bool was;
  };
  // One directory of the trees: what it is merged from, topmost first.
  struct Place {
    std::vector<Part> parts;
    std::string path;
    std::string name;
    const Place* above;  // null: the top
    size_t depth;
    struct stat status {};  // of the present one
    int directory;          // where it stands
    mutable bool told;
  };
  // What stands behind a name in one of the stacks.
  struct Found {
    size_t part;  // where it is
    struct stat status;
    std::vector<size_t> merged;  // of a directory: all parts that it is made of
  };

  Status Walk(const Place& place);
  Status Compare(const Place& place, const std::string& name);
  Result<std::optional<Found>> Look(const Place& place, const std::string& name, bool Part::*stack);
  Status Descend(const Place& place, const std::string& name, const Found& now,
                 const std::optional<Found>& was, bool told);
  Result<bool> Same(const Place& place, const std::string& name, const Found& now,
                    const Found& was);
  Status TellParents(const Place& place);
  Status Told(const Place& place, Change::Kind kind, const std::string& path,
              const std::string& name, const Found& found);

  const ExtractLimits limits_;
  const bool parents_;
  const Tell tell_;
  uint64_t entries_ = 0;
};

// Calls `each` with the name and the value of each extended attribute that a layer keeps of a file
// or directory that is open.
Status EachKeptXattr(int fd,
                     const std::function<Status(const char* name, std::string_view value)>& each);

}  // namespace atl::images::unpack
