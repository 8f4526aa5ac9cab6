#include "execd/core/environment.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>

#include "execd/core/users.h"

namespace atl::execd {
namespace {

constexpr size_t kMaxEnvFile = 1 << 20;
// Limit on the variables of a file. execve accepts no more on any host with the usual stack limit.
constexpr size_t kMaxVariables = 6 << 20;
// MAX_ARG_STRLEN of execve(2). No program can be started with a longer PATH.
constexpr size_t kMaxPathVariable = 128 << 10;

bool NameChar(char c, bool first) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
         (!first && c >= '0' && c <= '9');
}

std::string_view Trim(std::string_view text) {
  const char* space = " \t\r";
  const size_t start = text.find_first_not_of(space);
  if (start == std::string_view::npos) return {};
  return text.substr(start, text.find_last_not_of(space) - start + 1);
}

// Parses the reference at `text[at]`, which is '$': returns its size and the variable's name, or 0
// for a plain '$'.
size_t Reference(std::string_view text, size_t at, std::string_view* name) {
  size_t i = at + 1;
  if (i < text.size() && text[i] == '{') {
    const size_t end = text.find('}', i);
    if (end == std::string_view::npos || end == i + 1) return 0;
    *name = text.substr(i + 1, end - i - 1);
    return end + 1 - at;
  }
  const size_t start = i;
  while (i < text.size() && NameChar(text[i], i == start)) ++i;
  if (i == start) return 0;
  *name = text.substr(start, i - start);
  return i - at;
}

// Replaces $NAME and ${NAME}; an unset variable by nothing. Returns nullopt if the result exceeds
// `limit`, because many references to a long variable expand a short text enormously.
std::optional<std::string> Expand(std::string_view text, const Environment& env, size_t limit) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    std::string_view name;
    const size_t size = text[i] == '$' ? Reference(text, i, &name) : 0;
    if (size == 0) {
      out.push_back(text[i++]);
    } else {
      const char* value = env.Get(name);
      if (value) out.append(value);
      i += size;
    }
    if (out.size() > limit) return std::nullopt;
  }
  return out;
}

// Decodes a quoted string. `text[at]` is the first character after the opening quote. The closing
// quote must be on the same line; `*close` gets its position.
std::optional<std::string> ReadDoubleQuoted(std::string_view text, size_t at, size_t* close) {
  constexpr std::string_view kEscapes = "\\\"nrt", kMeant = "\\\"\n\r\t";
  std::string out;
  for (; at < text.size() && text[at] != '\n'; ++at) {
    if (text[at] == '"') {
      *close = at;
      return out;
    }
    const size_t escape =
        text[at] == '\\' && at + 1 < text.size() ? kEscapes.find(text[at + 1]) : std::string::npos;
    out.push_back(escape == std::string::npos ? text[at] : kMeant[escape]);
    if (escape != std::string::npos) ++at;
  }
  return std::nullopt;
}

// Reads the value that begins at `text[at]`. Returns nullopt if it is malformed. `*end` gets the
// end of the line on which it ends, if that is known. `*room` is the remaining size for values. It
// becomes 0 after a value that exceeds it, because each further attempt would cost as much.
std::optional<std::string> ReadValue(std::string_view text, size_t at, const Environment& env,
                                     size_t* room, size_t* end) {
  const auto line_end = [text](size_t from) {
    return std::min(text.find('\n', from), text.size());
  };
  const size_t begin = std::min(text.find_first_not_of(" \t", at), text.size());
  const char quote = begin < text.size() ? text[begin] : '\0';
  if (quote != '"' && quote != '\'') {
    auto value = Expand(Trim(text.substr(at, line_end(at) - at)), env, *room);
    if (!value) *room = 0;
    return value;
  }
  size_t close = text.find('\'', begin + 1);
  std::optional<std::string> value;
  if (quote == '"') {
    value = ReadDoubleQuoted(text, begin + 1, &close);
    if (value) {
      value = Expand(*value, env, *room);
      if (!value) *room = 0;
    }
  } else if (close != std::string_view::npos) {
    value = text.substr(begin + 1, close - begin - 1);
  }
  if (!value) return std::nullopt;
  *end = line_end(close);
  if (!Trim(text.substr(close + 1, *end - close - 1)).empty()) return std::nullopt;
  return value;
}

}  // namespace

Environment::Environment(const std::vector<std::string>& entries) {
  entries_.reserve(entries.size());
  for (const std::string& entry : entries) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    if (entry.find('\0') != std::string::npos) continue;
    Set(std::string_view(entry).substr(0, equals), std::string_view(entry).substr(equals + 1));
  }
}

const char* Environment::Get(std::string_view name) const {
  for (const std::string& entry : entries_) {
    if (entry.size() > name.size() && entry[name.size()] == '=' &&
        entry.compare(0, name.size(), name) == 0) {
      return entry.c_str() + name.size() + 1;
    }
  }
  return nullptr;
}

void Environment::Set(std::string_view name, std::string_view value) {
  std::string entry;
  entry.reserve(name.size() + 1 + value.size());
  entry.append(name).append("=").append(value);
  for (std::string& present : entries_) {
    if (present.compare(0, name.size() + 1, entry, 0, name.size() + 1) == 0) {
      present = std::move(entry);
      return;
    }
  }
  entries_.push_back(std::move(entry));
}

void Environment::SetAll(const std::vector<std::pair<std::string, std::string>>& values) {
  constexpr size_t kFew = 32;
  if (values.size() <= kFew) {
    for (const auto& [name, value] : values) Set(name, value);
    return;
  }
  std::map<std::string, size_t, std::less<>> index;
  for (size_t i = 0; i < entries_.size(); ++i) {
    index.emplace(entries_[i].substr(0, entries_[i].find('=')), i);
  }
  for (const auto& [name, value] : values) {
    const auto [at, added] = index.emplace(name, entries_.size());
    if (added) entries_.emplace_back();
    entries_[at->second].assign(name).append("=").append(value);
  }
}

void Environment::MergeFile(const std::string& path) {
  if (const auto text = ReadSmallFile(path, kMaxEnvFile)) SetAll(ParseVariables(*text, *this));
}

Variables ParseVariables(std::string_view text, const Environment& env) {
  Variables variables;
  size_t room = kMaxVariables;
  while (!text.empty() && room > 0) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view name = Trim(text.substr(0, end));
    if (name.starts_with("export ")) name = Trim(name.substr(7));
    const size_t equals = name.find('=');
    size_t taken = end;
    if (!name.starts_with('#') && equals != std::string_view::npos && equals > 0) {
      name = Trim(name.substr(0, equals));
      std::optional<std::string> value = ReadValue(text, text.find('=') + 1, env, &room, &taken);
      const bool usable = value && !name.empty() && name.find('\0') == std::string_view::npos &&
                          value->find('\0') == std::string::npos;
      if (usable && name.size() + value->size() < room) {
        room -= name.size() + value->size();
        variables.emplace_back(name, *std::move(value));
      }
    }
    text.remove_prefix(std::min(taken + 1, text.size()));
  }
  return variables;
}

std::vector<std::string> PathCandidates(std::string_view name, const Environment& env) {
  if (name.find('/') != std::string_view::npos) return {std::string(name)};
  const char* set = env.Get("PATH");
  std::string_view path = set ? set : kDefaultPath;
  std::vector<std::string> candidates;
  // The kernel accepts no such name or path. The limits also bound the product of both, which a
  // hostile request could make large.
  if (name.size() > NAME_MAX || path.size() > kMaxPathVariable) return candidates;
  while (true) {
    const size_t end = path.find(':');
    const std::string_view directory = path.substr(0, end);
    std::string candidate(directory.empty() ? "." : directory);
    if (candidate.append("/").append(name).size() < PATH_MAX) {
      candidates.push_back(std::move(candidate));
    }
    if (end == std::string_view::npos) return candidates;
    path.remove_prefix(end + 1);
  }
}

std::vector<std::string> PlacedCandidates(std::string_view name, const Environment& env) {
  std::vector<std::string> candidates = PathCandidates(name, env);
  if (name.find('/') == std::string_view::npos) {
    std::erase_if(candidates, [](const std::string& at) { return !at.starts_with('/'); });
  }
  return candidates;
}

std::string FindProgram(std::string_view name, const Environment& env) {
  for (std::string& candidate : PathCandidates(name, env)) {
    struct stat info;
    if (::stat(candidate.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
        (info.st_mode & 0111) != 0) {
      return std::move(candidate);
    }
  }
  return {};
}

namespace {

// Null `env`: no variables.
Result<std::string> Expand(std::string_view path, const Environment* env, std::string_view home) {
  if (path.empty()) return Fail(Code::kInvalidArgument, "path is empty");
  if (path.find('\0') != std::string_view::npos) {
    return Fail(Code::kInvalidArgument, "path contains a NUL byte");
  }
  std::string out;
  size_t i = 0;
  if (path[0] == '~' && (path.size() == 1 || path[1] == '/')) {
    out.append(home);
    i = 1;
  }
  while (i < path.size()) {
    std::string_view name;
    const bool dollar = env != nullptr && path[i] == '$';
    const size_t size = dollar ? Reference(path, i, &name) : 0;
    if (size == 0) {
      out.push_back(path[i++]);
      if (dollar && path.substr(i).starts_with('$')) ++i;
      continue;
    }
    const char* value = env->Get(name);
    if (!value) {
      return Fail(Code::kInvalidArgument, "path '" + std::string(path) + "': variable " +
                                              std::string(name) + " is not set");
    }
    out.append(value);
    i += size;
    // The kernel accepts no longer path, and many references to a long variable would expand to
    // terabytes.
    if (out.size() >= PATH_MAX) break;
  }
  if (out.size() < PATH_MAX) return out;
  return Fail(Code::kInvalidArgument, "path: longer than " + std::to_string(PATH_MAX - 1) +
                                          " bytes after its variables are expanded");
}

}  // namespace

Result<std::string> ExpandPath(std::string_view path, const Environment& env,
                               std::string_view home) {
  return Expand(path, &env, home);
}

Result<std::string> LiteralPath(std::string_view path, std::string_view home) {
  return Expand(path, nullptr, home);
}

}  // namespace atl::execd
