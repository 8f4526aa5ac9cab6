// Frees the caches that an ended sandbox has left on the host, so that its memory cgroup can die
// with it.
//
// A page or an inode in a cache stays charged to the cgroup of its first user. It keeps that cgroup
// in kernel memory after its removal, until something else needs the memory. A few hundred such
// cgroups hold pages that are worth having, those of layers in use, but a hostile sandbox leaves
// one more each time. So beyond kMost of them a cgroup is emptied before it is removed. That costs
// a process and milliseconds. Pages that others use have long been charged to one of the first
// cgroups.
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

  // Returns whether there are so many dying cgroups that the next are to be emptied.
  bool Wanted() const;
  // Returns whether the most processes run that may at once.
  bool Full() const { return runs_.size() >= kMostAtOnce; }
  // Empties the cgroup of this sandbox in a process of its own, which ends by itself within two
  // seconds. Returns false if it could not be started.
  bool Start(const std::string& group, const std::string& id);
  // Returns the sandbox whose cgroup `pid` has emptied, if `pid` was such a process.
  std::optional<std::string> OnChildExit(pid_t pid);

 private:
  static constexpr uint64_t kMost = 256;
  static constexpr size_t kMostAtOnce = 8;

  const cgroup::Tree& cgroups_;
  std::map<pid_t, std::string> runs_;
};

}  // namespace atl::spawner
