// Environments as lists of "NAME=value", and the lookups that depend on them: PATH, ~ and $VAR.
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

  // Returns the value, or null if it is not set.
  const char* Get(std::string_view name) const;
  void Set(std::string_view name, std::string_view value);
  // Sets all values, in order. Takes linear time; a Set for each would be quadratic.
  void SetAll(const std::vector<std::pair<std::string, std::string>>& values);
  const std::vector<std::string>& entries() const { return entries_; }

  // Merges the variables of a file (ParseVariables). A file that is missing or unreadable changes
  // nothing, because it is read for every command and may appear later.
  void MergeFile(const std::string& path);

 private:
  std::vector<std::string> entries_;
};

using Variables = std::vector<std::pair<std::string, std::string>>;

// Parses the format of the EXECD_ENVS file: lines NAME=value. The last line for a name counts. '#'
// starts a comment line. "export " before a name is ignored. A value has one of these forms:
//   bare words    trimmed; $NAME and ${NAME} are replaced from `env`, by nothing if unset
//   "text"        like bare words, blanks kept; escapes \\ \" \n \r \t; one line
//   'text'        literal; may span several lines
// The parser skips a line without "=", with an unclosed quote, or with text after the closing
// quote. It also skips variables that would exceed the size that execve accepts.
Variables ParseVariables(std::string_view text, const Environment& env);

// PATH of images that set none, the same as Docker's.
inline constexpr const char* kDefaultPath =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

// Returns the paths where execvp would look for `name`: `name` itself if it holds a slash, else
// `name` in each directory of PATH.
std::vector<std::string> PathCandidates(std::string_view name, const Environment& env);
// Like PathCandidates, but without relative entries of PATH. For a program that runs in a directory
// of its own, where a relative entry would mean another place.
std::vector<std::string> PlacedCandidates(std::string_view name, const Environment& env);
// Returns the first candidate that is an executable regular file, or empty.
std::string FindProgram(std::string_view name, const Environment& env);

// Expands a path of a request. "~" and "~/…" become `home`. $VAR and ${VAR} are replaced. $$ is a
// literal $, which upstream cannot express. An unset variable, an empty path and a NUL byte are
// errors.
Result<std::string> ExpandPath(std::string_view path, const Environment& env,
                               std::string_view home);
// Expands "~" only; $ is literal. For routes that upstream does not have.
Result<std::string> LiteralPath(std::string_view path, std::string_view home);

}  // namespace atl::execd
