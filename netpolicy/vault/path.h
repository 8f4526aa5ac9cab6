// Detects paths that two servers could read differently.
//
// Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace atl::vault {

// Whether "%2f" is accepted in a path. Many servers treat it as part of a name.
enum class EncodedSlash { kNever, kOnce };

// Returns true if the path has a segment "..", also with parameters ("..;x"), a backslash, or an
// encoded slash that `slash` does not accept, either directly or after any number of decodings.
// Clients resolve ".." before they send a request, so such a path is meant to mislead. `path`: the
// target up to '?', as received.
bool IsAmbiguousPath(std::string_view path, EncodedSlash slash);

// Returns true if the path has "%2f" or "%2F".
bool HasEncodedSlash(std::string_view path);

// Decodes %XX once. Invalid escapes are kept.
std::string DecodeOnce(std::string_view path);

}  // namespace atl::vault
