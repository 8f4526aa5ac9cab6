// Copies the upper directory of a sandbox, which may be running, into an empty one that overlayfs
// then reads as a layer with the same content: owners, modes, times, attributes, holes, hard links,
// whiteouts and opaque directories.
//
// It is done in passes. The first copies everything, each later one what has changed since the one
// before: so the last, with the sandbox held still, costs a look at each entry and a copy of what
// was changed, not of what there is.
//
// The names and the shape of the source are a stranger's: every path is walked one component at a
// time from a descriptor, no link is followed, depth and numbers are bounded.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "images/unpack/limits.h"
#include "runtime/base/result.h"

namespace atl::images::unpack {

inline constexpr size_t kMaxXattrs = 64 << 10;  // XATTR_LIST_MAX, and XATTR_SIZE_MAX

class TreeCopy {
 public:
  // Two directories, borrowed; `to` is empty and on the same file system. Of the limits those of
  // bytes (blocks in use, not lengths) and of entries count.
  TreeCopy(int from, int to, const ExtractLimits& limits) : from_(from), to_(to), limits_(limits) {}

  // Ahead of a pass that runs while `from` changes, but called while nothing is at work on it: no
  // system call, no page fault. Of what has changed since the last mark, a later pass trusts no
  // copy.
  Status Mark();
  // Makes `to` what `from` is. While `from` changes (`still` is false) the result may be a mixture
  // of before and after, and what vanishes meanwhile is no error.
  Status Pass(bool still);

  // Of the last pass.
  uint64_t entries() const { return entries_; }
  uint64_t bytes() const { return bytes_; }    // that the tree has
  uint64_t copied() const { return copied_; }  // that were read and written for it

 private:
  // What is known of an inode of the source.
  struct Seen {
    timespec changed{};  // its ctime, read before its content
    off_t size = 0;      // with it: a long write(2) sets the time only when it begins
    blkcnt_t blocks = 0;
    ino_t made = 0;        // its copy
    uint32_t pass = 0;     // that met it last
    bool settled = false;  // as long as its ctime stays, so does its content
  };
  // A directory of both trees.
  struct Place {
    int from;
    int to;
    std::string path;  // from the top; empty: the top
    size_t depth;
    bool same;  // the last pass made every name in it, of the inodes that it has now
  };

  // True: something of the copy was changed.
  Result<bool> Fill(Place place);
  Result<bool> Entry(const Place& place, const std::string& name);
  Result<bool> Directory(const Place& place, const std::string& name, bool exists);
  Result<bool> RemoveOthers(const Place& place, const std::vector<std::string>& names);
  // The inode of the copy; none: the source has vanished. `now` is read again where that can be
  // done without a race.
  Result<std::optional<ino_t>> Make(const Place& place, const std::string& name, struct stat* now);
  Result<std::optional<ino_t>> MakeFile(const Place& place, const std::string& name,
                                        struct stat* now);
  Status CopyContent(int from, int to, uint64_t size);
  Status CopyRange(int from, int to, off_t begin, off_t end);
  Status CopyAttributes(int from, int to, const struct stat& now, const std::string& path);
  // Of those that are copied.
  Status EachXattr(int fd, const std::function<Status(const char* name)>& each);
  Status RemoveXattrs(int to);
  Status CopyXattrs(int from, int to, const std::string& path);
  bool LinkToCopy(const Seen& seen, ino_t inode, const Place& place, const std::string& name);
  Seen* Find(ino_t inode);
  bool IsCurrent(const Seen* seen, const struct stat& now) const;
  void Remember(const struct stat& now, ino_t made);
  Status Count(const struct stat& now, const std::string& path);
  // Of a call on something of the source: true if it has vanished, and may have.
  bool Vanished() const;

  const int from_;
  const int to_;
  const ExtractLimits limits_;
  bool still_ = false;
  bool clones_ = true;  // the file system shares blocks between files, as far as we know
  uint32_t pass_ = 0;
  timespec marked_{};
  uint64_t entries_ = 0;
  uint64_t bytes_ = 0;
  uint64_t copied_ = 0;
  std::unordered_map<ino_t, Seen> seen_;
  std::unordered_map<ino_t, std::string> linked_;  // of several names: where a copy of it is
  std::string names_, value_;                      // room for attributes
};

// Whether a file of this path, from the top, is one sandbox's own and nobody else's: its names, its
// machine id, seeds of random numbers. No copy has it.
bool IsOfOneSandbox(std::string_view path);
// Whether this extended attribute goes into a copy. Of overlayfs's own only those that say what a
// layer hides: the others are about the upper directory that it was, or would steer the overlay.
bool IsCopied(std::string_view xattr);

}  // namespace atl::images::unpack
