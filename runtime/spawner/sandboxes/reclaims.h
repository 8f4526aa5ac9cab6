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
#include <map>
#include <optional>
#include <string>

#include "cgroup/tree.h"

namespace atl::spawner {

class Reclaims {
 public:
  explicit Reclaims(const cgroup::Tree& cgroups) : cgroups_(cgroups) {}

  // Whether there are so many dying groups that those that end now are to be emptied.
  bool Wanted() const;
  // Whether as many run as may at once.
  bool Full() const { return runs_.size() >= kMostAtOnce; }
  // Empties the group of this sandbox in a process of its own, which ends by itself within two
  // seconds. False: it could not be started.
  bool Start(const std::string& group, const std::string& id);
  // The sandbox whose group `pid` has emptied, if it was one of them.
  std::optional<std::string> OnChildExit(pid_t pid);

 private:
  static constexpr uint64_t kMost = 256;
  static constexpr size_t kMostAtOnce = 8;

  const cgroup::Tree& cgroups_;
  std::map<pid_t, std::string> runs_;
};

}  // namespace atl::spawner
