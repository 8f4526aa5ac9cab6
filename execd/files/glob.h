// Glob patterns on base names, in doublestar's syntax: * and ** (the same within one name), ?,
// [a-z] and [!a-z] or [^a-z], {one,two}, and \ before any of these.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace atl::execd {

class Glob {
 public:
  // kInvalidArgument for an unclosed [ or {, a trailing \, or braces that multiply beyond 256.
  static Result<Glob> Parse(std::string_view pattern);
  bool Matches(std::string_view name) const;

 private:
  std::vector<std::string> alternatives_;  // without braces
};

}  // namespace atl::execd
