// Our own directories, which no volume may show: the API key and everybody's files lie in them.
#pragma once

#include <string>

#include "runtime/base/result.h"
#include "runtime/spawner/rules/config.h"

namespace atl::spawner {

// Pure: whether `path` is `directory` or lies beneath it; both are plain absolute paths.
bool Within(const std::string& path, const std::string& directory);

// An open file's own path.
Result<std::string> RealPath(int fd);

enum class Overlap {
  kNone,
  kHolds,  // one of ours lies beneath
  kWithin  // it is one of ours, or lies beneath
};
// Of what is open as `fd`.
Result<Overlap> OverlapWithOurs(const Config& config, int fd);

// At start: no directory that is allowed for volumes may hold one of ours, or lie in one, whatever
// links are in between. One that is missing is judged by its path, and again when it is opened.
Status CheckHostPaths(const Config& config);

}  // namespace atl::spawner
