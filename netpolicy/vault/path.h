// Paths that two servers could read as two different ones.
//
// Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace atl::vault {

// Whether "%2f" may stand in a path, in which it is part of a name for many servers.
enum class EncodedSlash { kNever, kOnce };

// Whether the path has a segment "..", also with parameters ("..;x"), a backslash, or an encoded
// slash that `slash` does not allow; as it stands or however often it is decoded. A client has
// resolved ".." before it sends anything, so that such a path is meant to mislead. `path` is the
// target's part before '?', as it came.
bool IsAmbiguousPath(std::string_view path, EncodedSlash slash);

// Whether it has "%2f" or "%2F".
bool HasEncodedSlash(std::string_view path);

// %XX decoded once; what is no escape stays as it is.
std::string DecodeOnce(std::string_view path);

}  // namespace atl::vault
