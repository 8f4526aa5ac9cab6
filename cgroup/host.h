// Where this host keeps its cgroups. Two layouts are known: v2 with its controllers ("unified", the
// real thing), and v1 controllers with a v2 hierarchy mounted beside them ("hybrid"), where v2
// gives kill, freeze and CLONE_INTO_CGROUP, and the v1 groups carry the limits.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace atl::cgroup {

struct Host {
  bool v2 = false;
  std::string unified;                    // mount point of the v2 hierarchy
  std::map<std::string, std::string> v1;  // controller → mount point; hybrid only

  // Which limits can be enforced here: of "memory", "swap", "pids", "cpu", "io".
  std::vector<std::string> limits;
};

// kUnavailable, with what is missing, when there is no v2 hierarchy at all or neither layout offers
// memory and pids.
Result<Host> DetectHost();
// The same from the text of a mountinfo file; `read` gives a file's content or nothing.
Result<Host> DetectHost(std::string_view mountinfo,
                        Result<std::string> (*read)(const std::string& path));

}  // namespace atl::cgroup
