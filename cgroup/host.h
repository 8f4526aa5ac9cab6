// Finds the cgroup hierarchies of this host. Two layouts are supported: v2 with its controllers
// ("unified"), and v1 controllers with a v2 hierarchy mounted beside them ("hybrid"). In the hybrid
// layout v2 provides kill, freeze and CLONE_INTO_CGROUP, and the v1 groups enforce the limits.
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
  std::map<std::string, std::string> v1;  // controller → mount point; only for hybrid hosts

  // Limits that this host can enforce, out of "memory", "swap", "pids", "cpu", "io".
  std::vector<std::string> limits;
};

// kUnavailable: there is no v2 hierarchy, or neither layout offers memory and pids. The message
// says what is missing.
Result<Host> DetectHost();
// Like DetectHost, but parses the text of a mountinfo file. `read` returns the content of a file.
Result<Host> DetectHost(std::string_view mountinfo,
                        Result<std::string> (*read)(const std::string& path));

}  // namespace atl::cgroup
