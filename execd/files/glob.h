// Glob patterns for base names, in doublestar's syntax: * and ** (the same within a name), ?,
// [a-z], [!a-z] or [^a-z], {one,two}, and \ before any of these.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace atl::execd {

class Glob {
 public:
  // kInvalidArgument: an unclosed [ or {, a trailing \, or braces that expand to more than 256
  // patterns.
  static Result<Glob> Parse(std::string_view pattern);
  bool Matches(std::string_view name) const;

 private:
  std::vector<std::string> alternatives_;  // patterns without braces
};

}  // namespace atl::execd
