// Counts what named volumes take on disk, each time in a process of its own: a tree of a million
// files must not hold up a build.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host.h"
#include "runtime/wire/reply.h"

namespace atl::spawner {

// Bounded in entries, depth and time; `complete` tells whether a bound was met. A file with several
// links counts once, if they are all in the tree. Follows no link.
wire::VolumeUse CountTree(int directory);

class VolumeUses {
 public:
  using Done = std::function<void(Result<wire::VolumeUse>)>;

  explicit VolumeUses(const Host& host) : host_(host) {}

  // kNotFound: no such volume. kResourceExhausted: too many at once.
  void Count(const std::string& name, Done done);
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
