// Finds the differences between two stacks of layers, as a sandbox would see each of them. Layers
// at the bottom that both stacks have are read only where a layer above requires it, so the cost
// depends on what has changed, not on the size of the trees.
//
// All input is hostile, and one layer may be the upper directory of a running sandbox. Every path
// is walked one component at a time from a descriptor, no link is followed, depth and numbers are
// bounded, and a file that vanishes meanwhile counts as missing.
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

// A layer of one stack or of both. Listed topmost first; the layers of each stack keep their order.
struct StackedLayer {
  int directory;  // borrowed
  bool now;       // belongs to the newer stack
  bool was;       // belongs to the older stack
};

struct Change {
  enum class Kind { kAdded, kModified, kDeleted };
  Kind kind;
  std::string_view path;  // relative to the top, no leading slash
  // The new status. For a deleted file, the old one.
  const struct stat& status;
  // Location of the file: a directory and the name in it.
  int directory;
  const std::string& name;
};

class TreeDiff {
 public:
  using Tell = std::function<Status(const Change&)>;

  // `tell` is called for a parent before its entries. Entries of a deleted directory are not
  // reported separately. Of the limits, the one on entries applies. `parents`: also reports
  // unchanged directories that contain changes, as kModified.
  TreeDiff(const ExtractLimits& limits, bool parents, Tell tell)
      : limits_(limits), parents_(parents), tell_(std::move(tell)) {}
  Status Run(const std::vector<StackedLayer>& layers);

  uint64_t entries() const { return entries_; }  // number of entries looked at

 private:
  // A directory of one layer, and the stacks in which it is visible.
  struct Part {
    UniqueFd directory;
    bool now;
    bool was;
  };
  // One directory of the merged trees: its parts, topmost first.
  struct Place {
    std::vector<Part> parts;
    std::string path;
    std::string name;
    const Place* above;  // null: the top
    size_t depth;
    struct stat status {};  // status of the newer directory
    int directory;          // the directory that holds it
    mutable bool told;
  };
  // The file behind a name in one of the stacks.
  struct Found {
    size_t part;  // index of the part that holds it
    struct stat status;
    std::vector<size_t> merged;  // all parts that a directory is merged from
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

// Calls `each` with the name and value of each extended attribute of an open file or directory that
// a layer keeps.
Status EachKeptXattr(int fd,
                     const std::function<Status(const char* name, std::string_view value)>& each);

}  // namespace atl::images::unpack
