// Our own directories, which hold the API key and everybody's files. No volume may show them.
#pragma once

#include <string>

#include "runtime/base/result.h"
#include "runtime/spawner/rules/config.h"

namespace atl::spawner {

// Returns whether `path` is `directory` or lies beneath it. Both are plain absolute paths. Pure.
bool Within(const std::string& path, const std::string& directory);

// Returns the path of an open file.
Result<std::string> RealPath(int fd);

enum class Overlap {
  kNone,
  kHolds,  // one of our directories lies beneath
  kWithin  // it is one of our directories, or lies beneath one
};
// Compares the file that is open as `fd` with our directories.
Result<Overlap> OverlapWithOurs(const Config& config, int fd);

// Checks at start that no directory allowed for volumes holds one of ours or lies in one, whatever
// links are in between. A missing one is judged by its path, and again when it is opened.
Status CheckHostPaths(const Config& config);

}  // namespace atl::spawner
