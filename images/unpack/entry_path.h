// What the name of an archive entry may be, and what it means: pure rules, nothing here touches the
// file system. The first fence; the second is that every path is walked with openat2 below the
// layer's directory (tree.h), the third that the process sees no other directory (confine.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace atl::images::unpack {

inline constexpr size_t kMaxPath = 4095;      // PATH_MAX without its NUL
inline constexpr size_t kMaxComponent = 255;  // NAME_MAX
inline constexpr size_t kMaxDepth = 256;      // directories around an entry
// An inode's attributes share one block of ext4, and overlayfs's own mark needs room there.
inline constexpr size_t kMaxXattrRoom = 3900;

// "./usr//bin/sh" is {"usr", "bin", "sh"}; the root itself is empty. A leading '/' is taken as the
// root of the archive, as every extractor does; ".." is refused wherever it stands. All other
// bytes are allowed: file names are bytes. A whiteout's name may be longer than a file's, by the
// prefix.
Result<std::vector<std::string>> ParseEntryPath(std::string_view name);
// Whether ".." stands in it.
bool NamesParent(std::string_view name);

// The OCI image specification, "Whiteouts" in layer.md.
enum class EntryKind {
  kPlain,
  kWhiteout,         // .wh.NAME: NAME of the layers below is gone
  kOpaque,           // .wh..wh..opq: all that the layers below have in this directory is gone
  kAufsBookkeeping,  // other .wh..wh.*: what aufs kept for itself, to be skipped
  kNonsense  // a whiteout of nothing, of '.' or '..', or used as a directory: nothing can come of
             // it
};
struct ClassifiedPath {
  EntryKind kind = EntryKind::kPlain;
  // Of kWhiteout: with NAME as the last component. Of kOpaque: the directory.
  std::vector<std::string> path;
};
Result<ClassifiedPath> ClassifyPath(std::vector<std::string> path);

// "usr/bin/sh"; the root is ".".
std::string JoinPath(const std::vector<std::string>& path, size_t components);
inline std::string JoinPath(const std::vector<std::string>& path) {
  return JoinPath(path, path.size());
}

// Returns false for extended attributes that a layer does not get: those of overlayfs, because they
// would steer the sandbox's mount; those that cannot be set without privilege or mean nothing here.
bool KeepsXattr(std::string_view name, std::string_view value);
// What an attribute takes of kMaxXattrRoom, as ext4 counts.
size_t XattrRoom(std::string_view name, std::string_view value);

}  // namespace atl::images::unpack
