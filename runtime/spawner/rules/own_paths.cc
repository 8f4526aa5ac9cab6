#include "runtime/spawner/rules/own_paths.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "runtime/base/sys.h"

namespace atl::spawner {

bool Within(const std::string& path, const std::string& directory) {
  return path == directory || (path.starts_with(directory) && path[directory.size()] == '/');
}

Result<std::string> RealPath(int fd) {
  char path[PATH_MAX];
  const std::string link = sys::FdPath(fd);
  const ssize_t n = ::readlink(link.c_str(), path, sizeof path);
  if (n <= 0 || n == static_cast<ssize_t>(sizeof path)) return FailSys("readlink " + link);
  return std::string(path, static_cast<size_t>(n));
}

Result<Overlap> OverlapWithOurs(const Config& config, int fd) {
  ATOLL_ASSIGN(const std::string path, RealPath(fd));
  for (const std::string& own : {config.data_dir, config.run_dir}) {
    ATOLL_ASSIGN(const UniqueFd directory, sys::Open(own, O_PATH | O_DIRECTORY));
    ATOLL_ASSIGN(const std::string ours, RealPath(directory.get()));
    if (Within(path, ours)) return Overlap::kWithin;
    if (path == "/" || Within(ours, path)) return Overlap::kHolds;
  }
  return Overlap::kNone;
}

Status CheckHostPaths(const Config& config) {
  for (const std::string& path : config.host_paths) {
    Overlap overlap = Overlap::kNone;
    if (const auto open = sys::Open(path, O_PATH)) {
      ATOLL_ASSIGN(overlap, OverlapWithOurs(config, open->get()));
    }
    for (const std::string& own : {config.data_dir, config.run_dir}) {
      if (Within(path, own)) overlap = Overlap::kWithin;
      if (Within(own, path)) overlap = Overlap::kHolds;
    }
    if (overlap == Overlap::kNone) continue;
    return Fail(Code::kInvalidArgument,
                "--host-path '" + path + "' (allowed_host_paths in [storage]) " +
                    (overlap == Overlap::kHolds ? "holds" : "lies in") +
                    " Atoll's own data_dir or run_dir, whose files no sandbox may see: allow "
                    "directories beside these");
  }
  return {};
}

}  // namespace atl::spawner
