// Writes the entries of one layer into its directory, so that overlayfs (mounted with userxattr)
// reads the result as that layer.
//
// Every path is resolved by openat2 with the layer's directory as root. A symbolic link that an
// earlier entry has made is followed within the layer, as in a chroot, but never out of it. The
// last component is never followed. A later entry replaces an earlier one of the same name. A
// directory over an existing directory only sets its attributes.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "images/unpack/limits.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::images::unpack {

using Path = std::vector<std::string>;

// Returns true if the file marks a name of the layers below as deleted.
bool IsWhiteout(const struct stat& st);

struct Attributes {
  uid_t uid = 0;
  gid_t gid = 0;
  mode_t mode = 0755;  // permission bits, including set-id and sticky
  timespec mtime{};
  std::vector<std::pair<std::string, std::string>> xattrs;
};

class LayerTree {
 public:
  // `root`: the layer's directory, not O_PATH.
  LayerTree(UniqueFd root, const ExtractLimits& limits) : root_(std::move(root)), limits_(limits) {}

  // `fill` writes the content to the descriptor.
  using Fill = std::function<Status(int fd)>;
  Status AddFile(const Path& path, const Attributes& attributes, const Fill& fill);
  Status AddDirectory(const Path& path, const Attributes& attributes);
  Status AddSymlink(const Path& path, const Attributes& attributes, const std::string& target);
  Status AddFifo(const Path& path, const Attributes& attributes);
  // `target` must have been written by this layer already.
  Status AddHardLink(const Path& path, const Path& target);
  // Deletes `path` of the layers below. A file of this layer at that path stays, as the
  // specification says, but nothing of the layers below shows through it.
  Status AddWhiteout(const Path& path);
  Status AddOpaque(const Path& directory);

  // Sets the times of directories, which their entries have changed meanwhile, and syncs everything
  // to disk.
  Status Finish();

  uint64_t entries() const { return entries_; }
  bool opaque_root() const { return opaque_root_; }

 private:
  Status CountEntry();
  // Returns the directory that holds the last component, and creates missing ones. Borrowed until
  // the next call.
  Result<int> Parent(const Path& path);
  Result<UniqueFd> OpenOrMakeParents(const Path& path);
  Result<UniqueFd> MakeImpliedDirectory(int parent, const std::string& name);
  // Removes `name`. `was_whiteout` tells whether it was a whiteout.
  Status Remove(int parent, const std::string& name, bool* was_whiteout = nullptr);
  Status ApplyToFd(int fd, const std::string& name, const Attributes& attributes);
  Status ApplyNoFollow(int parent, const std::string& name, const Attributes& attributes);
  Status RememberTime(const Path& path, const timespec& mtime);
  Status SetOpaque(int directory, const std::string& name);

  UniqueFd root_;
  ExtractLimits limits_;
  uint64_t entries_ = 0;
  bool opaque_root_ = false;
  // The last parent, cached because archives list a directory's entries in a row. Invalidated by
  // each removal, which may have removed a part of its path.
  std::string cached_name_;
  UniqueFd cached_;
  std::vector<std::pair<std::string, timespec>> directory_times_;
  size_t directory_times_bytes_ = 0;
};

}  // namespace atl::images::unpack
