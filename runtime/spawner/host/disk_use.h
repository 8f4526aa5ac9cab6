// Counts the disk space of sandboxes and named volumes. A store with project quotas knows the sums.
// Without quotas a process of its own walks the tree, because a million files must not delay a
// build.
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

// Counts the tree within bounds on entries, depth and time; `complete` is false if it met a bound.
// A file with several links in the tree counts once. Follows no link.
wire::DiskUse CountTree(int directory);

class DiskUses {
 public:
  using Done = std::function<void(Result<wire::DiskUse>)>;

  explicit DiskUses(const Host& host) : host_(host) {}

  // `directory` is relative to the store's root: an upper directory or a named volume. kNotFound:
  // it does not exist. kResourceExhausted: too many walks at once.
  void Count(const std::string& directory, Done done);
  // Returns true if `pid` was the process of a walk.
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
