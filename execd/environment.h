// Environments as lists of "NAME=value", and what depends on them: PATH, ~ and $VAR.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/result.h"

namespace atl::execd {

class Environment {
 public:
  Environment() = default;
  explicit Environment(const std::vector<std::string>& entries);

  // The value; null if not set.
  const char* Get(std::string_view name) const;
  void Set(std::string_view name, std::string_view value);
  // All of them, in order; in linear time, unlike a Set for each.
  void SetAll(const std::vector<std::pair<std::string, std::string>>& values);
  const std::vector<std::string>& entries() const { return entries_; }

  // Lines NAME=value; '#' starts a comment line; "export " before a name and quotes around a value
  // are dropped; $NAME and ${NAME} in a value are replaced by what is set so far. A file that is
  // absent or cannot be read changes nothing (it is read for every command, and may appear later).
  void MergeFile(const std::string& path);

  // $NAME and ${NAME} replaced, an unset one by nothing.
  std::string Expand(std::string_view text) const;

 private:
  std::vector<std::string> entries_;
};

// What images without PATH get, as in Docker.
inline constexpr const char* kDefaultPath =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

// Where execvp would look for `name`: itself if it holds a slash, else each directory of PATH.
std::vector<std::string> PathCandidates(std::string_view name, const Environment& env);
// The first candidate that is an executable regular file; empty if there is none.
std::string FindProgram(std::string_view name, const Environment& env);

// A path of a request: "~" and "~/…" become `home`, $VAR and ${VAR} are replaced; an unset variable
// is an error, as is an empty path or one with a NUL byte.
Result<std::string> ExpandPath(std::string_view path, const Environment& env,
                               std::string_view home);

}  // namespace atl::execd
