// Copies the upper directory of a sandbox, which may be running, into an empty directory that
// overlayfs reads as a layer with the same content: owners, modes, times, attributes, holes, hard
// links, whiteouts and opaque directories.
//
// The copy is made in passes. The first pass copies everything, and each later pass copies what has
// changed since the one before. The last pass runs while the sandbox is paused. It therefore only
// looks at each entry and copies the changes, not the whole tree.
//
// The source is hostile: every path is walked one component at a time from a descriptor, no link is
// followed, and depth and numbers are bounded.
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
  // Both directories are borrowed. `to` is empty and on the same file system. The limits on bytes
  // (blocks in use, not lengths) and on entries apply.
  TreeCopy(int from, int to, const ExtractLimits& limits) : from_(from), to_(to), limits_(limits) {}

  // Call before a pass that runs while `from` changes, at a moment when no process works on it: no
  // system call, no page fault. Later passes do not trust their copy of a file that has changed
  // since the last mark.
  Status Mark();
  // Makes `to` equal to `from`. If `still` is false, `from` may change meanwhile: the result may
  // mix old and new content, and vanished files are no error.
  Status Pass(bool still);

  // Numbers of the last pass.
  uint64_t entries() const { return entries_; }
  uint64_t bytes() const { return bytes_; }    // size of the tree
  uint64_t copied() const { return copied_; }  // bytes read and written by the pass

 private:
  // The state of an inode of the source.
  struct Seen {
    timespec changed{};  // its ctime, read before its content
    // read with the ctime, because a long write(2) sets the time only when it begins
    off_t size = 0;
    blkcnt_t blocks = 0;
    ino_t made = 0;        // inode of its copy
    uint32_t pass = 0;     // last pass that met it
    bool settled = false;  // the content cannot change while the ctime stays the same
  };
  // A directory, opened in both trees.
  struct Place {
    int from;
    int to;
    std::string path;  // relative to the top, which is empty
    size_t depth;
    bool same;  // the last pass created every name in it, for the inodes that it has now
  };

  // These return true if they changed something in the copy.
  Result<bool> Fill(Place place);
  Result<bool> Entry(const Place& place, const std::string& name);
  Result<bool> Directory(const Place& place, const std::string& name, bool exists);
  Result<bool> RemoveOthers(const Place& place, const std::vector<std::string>& names);
  // Creates the copy and returns its inode; empty if the source has vanished. `now` is read again
  // where that can be done without a race.
  Result<std::optional<ino_t>> Make(const Place& place, const std::string& name, struct stat* now);
  Result<std::optional<ino_t>> MakeFile(const Place& place, const std::string& name,
                                        struct stat* now);
  Status CopyContent(int from, int to, uint64_t size);
  Status CopyRange(int from, int to, off_t begin, off_t end);
  Status CopyAttributes(int from, int to, const struct stat& now, const std::string& path);
  // Calls `each` for the attributes that are copied.
  Status EachXattr(int fd, const std::function<Status(const char* name)>& each);
  Status RemoveXattrs(int to);
  Status CopyXattrs(int from, int to, const std::string& path);
  bool LinkToCopy(const Seen& seen, ino_t inode, const Place& place, const std::string& name);
  Seen* Find(ino_t inode);
  bool IsCurrent(const Seen* seen, const struct stat& now) const;
  void Remember(const struct stat& now, ino_t made);
  Status Count(const struct stat& now, const std::string& path);
  // Call after a failed access to the source. Returns true if the file has vanished and the source
  // may be changing.
  bool Vanished() const;

  const int from_;
  const int to_;
  const ExtractLimits limits_;
  bool still_ = false;
  bool clones_ = true;  // the file system can share blocks between files, as far as known
  uint32_t pass_ = 0;
  timespec marked_{};
  uint64_t entries_ = 0;
  uint64_t bytes_ = 0;
  uint64_t copied_ = 0;
  std::unordered_map<ino_t, Seen> seen_;
  // the path of a copy of each file with several names
  std::unordered_map<ino_t, std::string> linked_;
  std::string names_, value_;  // buffers for attributes
};

// Returns true for paths (from the top) of files that belong to one sandbox only: its names, its
// machine id, seeds of random numbers. No copy gets them.
bool IsOfOneSandbox(std::string_view path);
// Returns true if the extended attribute is copied. Of overlayfs's own attributes, only those that
// hide lower layers are copied. The others are about the former upper directory, or would control
// the overlay.
bool IsCopied(std::string_view xattr);

}  // namespace atl::images::unpack
