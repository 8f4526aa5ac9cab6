// Rules for the names of archive entries. Pure functions that do not touch the file system. They
// are the first line of defence. The second is that every path is resolved with openat2 beneath the
// layer's directory (tree.h), and the third that the process sees no other directory (confine.h).
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
// Most bytes of a file's extended attributes. They share one block of ext4, and overlayfs needs
// room for its own mark.
inline constexpr size_t kMaxXattrRoom = 3900;

// Splits a name: "./usr//bin/sh" becomes {"usr", "bin", "sh"}, and the root becomes an empty list.
// A leading '/' means the root of the archive, as in all extractors. ".." is refused anywhere. Any
// other bytes are accepted. The name of a whiteout may be longer than a file's by its prefix.
Result<std::vector<std::string>> ParseEntryPath(std::string_view name);
// Returns true if the name has a component "..".
bool NamesParent(std::string_view name);

// Kinds of entries in the OCI image specification, "Whiteouts" in layer.md.
enum class EntryKind {
  kPlain,
  kWhiteout,         // .wh.NAME: deletes NAME of the layers below
  kOpaque,           // .wh..wh..opq: hides everything that the layers below have in this directory
  kAufsBookkeeping,  // other .wh..wh.*: bookkeeping of aufs, skipped
  kNonsense  // a whiteout of nothing, of '.' or '..', or used as a directory: it has no meaning
};
struct ClassifiedPath {
  EntryKind kind = EntryKind::kPlain;
  // The file that a kWhiteout deletes, or the directory of a kOpaque.
  std::vector<std::string> path;
};
Result<ClassifiedPath> ClassifyPath(std::vector<std::string> path);

// Joins components to "usr/bin/sh". The root is ".".
std::string JoinPath(const std::vector<std::string>& path, size_t components);
inline std::string JoinPath(const std::vector<std::string>& path) {
  return JoinPath(path, path.size());
}

// Returns false for extended attributes that a layer does not get: those of overlayfs, because they
// would control the sandbox's mount, and those that cannot be set without privilege or mean nothing
// here.
bool KeepsXattr(std::string_view name, std::string_view value);
// Returns the bytes that an attribute uses of kMaxXattrRoom, computed like ext4.
size_t XattrRoom(std::string_view name, std::string_view value);

}  // namespace atl::images::unpack
