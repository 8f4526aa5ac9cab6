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

  // What ParseVariables makes of a file. One that is absent or cannot be read changes nothing (it
  // is read for every command, and may appear later).
  void MergeFile(const std::string& path);

 private:
  std::vector<std::string> entries_;
};

using Variables = std::vector<std::pair<std::string, std::string>>;

// The format of the EXECD_ENVS file: lines NAME=value, of which the last for a name counts. '#'
// starts a comment line, "export " before a name is dropped. A value is one of
//   bare words    trimmed; $NAME and ${NAME} replaced from `env`, an unset one by nothing
//   "text"        the same, its blanks kept; \\ \" \n \r \t are one character, on one line
//   'text'        as it is, over several lines if need be
// A line without "=", with a quote that is not closed, or with text after its closing quote is
// passed over; so is what would make the whole larger than execve takes.
Variables ParseVariables(std::string_view text, const Environment& env);

// What images without PATH get, as in Docker.
inline constexpr const char* kDefaultPath =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

// Where execvp would look for `name`: itself if it holds a slash, else each directory of PATH.
std::vector<std::string> PathCandidates(std::string_view name, const Environment& env);
// The same for a program with a directory of its own, in which a relative entry of PATH would mean
// something else.
std::vector<std::string> PlacedCandidates(std::string_view name, const Environment& env);
// The first candidate that is an executable regular file; empty if there is none.
std::string FindProgram(std::string_view name, const Environment& env);

// A path of a request: "~" and "~/…" become `home`, $VAR and ${VAR} are replaced, $$ is a $, which
// upstream has no way to say; an unset variable is an error, as is an empty path or one with a NUL
// byte.
Result<std::string> ExpandPath(std::string_view path, const Environment& env,
                               std::string_view home);
// The same of a route that upstream has not: each $ is itself.
Result<std::string> LiteralPath(std::string_view path, std::string_view home);

}  // namespace atl::execd
