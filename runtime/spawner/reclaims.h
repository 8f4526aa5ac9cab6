// Takes what an ended sandbox has left in the host's caches away, so that its memory cgroup can die
// with it.
//
// A page or an inode in a cache stays charged to the group of whoever was first to use it, and
// keeps that group in kernel memory after its removal, until something else needs the memory. A few
// hundred such groups hold what is worth having, the pages of layers in use; a hostile sandbox
// leaves one more each time. So beyond kMost of them a group is emptied before it is removed, which
// costs a process and milliseconds, and what others use has long been charged to one of the first.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>

#include "cgroup/tree.h"

namespace atl::spawner {

class Reclaims {
 public:
  explicit Reclaims(const cgroup::Tree& cgroups) : cgroups_(cgroups) {}

  // Whether there are so many dying groups that those that end now are to be emptied.
  bool Wanted() const;
  // Whether as many run as may at once.
  bool Full() const { return pids_.size() >= kMostAtOnce; }
  // Empties the group in a process of its own, which ends by itself within two seconds. 0: it could
  // not be started.
  pid_t Start(const std::string& group);
  // True if `pid` was one of them.
  bool OnChildExit(pid_t pid) { return pids_.erase(pid) > 0; }
  bool Runs(pid_t pid) const { return pids_.count(pid) > 0; }

 private:
  static constexpr uint64_t kMost = 256;
  static constexpr size_t kMostAtOnce = 8;

  const cgroup::Tree& cgroups_;
  std::set<pid_t> pids_;
};

}  // namespace atl::spawner
