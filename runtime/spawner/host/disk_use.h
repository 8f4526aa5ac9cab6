// Counts what sandboxes and named volumes take on disk. A store with project quotas knows the sums.
// Without them a process of its own walks the tree: a million files must not hold up a build.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host/host.h"
#include "runtime/wire/reply.h"

namespace atl::spawner {

// Bounded in entries, depth and time; `complete` tells whether a bound was met. A file with several
// links counts once, if they are all in the tree. Follows no link.
wire::DiskUse CountTree(int directory);

class DiskUses {
 public:
  using Done = std::function<void(Result<wire::DiskUse>)>;

  explicit DiskUses(const Host& host) : host_(host) {}

  // `directory` is relative to the store's root: an upper's or a named volume's. kNotFound: there
  // is none. kResourceExhausted: too many walks at once.
  void Count(const std::string& directory, Done done);
  // True if `pid` was one of ours.
  bool OnChildExit(pid_t pid);

 private:
  struct Run {
    UniqueFd result;
    Done done;
  };

  const Host& host_;
  std::map<pid_t, Run> runs_;
};

}  // namespace atl::spawner
