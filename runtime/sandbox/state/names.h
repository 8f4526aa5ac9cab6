// Which sandboxes are called what: by name, because a create that wants a name for itself must not
// look at every other sandbox.
//
// Thread rule: on the loop.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/sandbox/record/sandbox.h"

namespace atl::sandbox {

class Names {
 public:
  // To be called around each change of a sandbox's metadata. Without a name they do nothing.
  void Add(const Sandbox& sandbox);
  void Remove(const Sandbox& sandbox);
  // Ids of all that are called so.
  std::vector<std::string> Find(const std::string& name) const;
  void Clear() { all_.clear(); }

 private:
  std::set<std::pair<std::string, std::string>> all_;  // name and id
};

}  // namespace atl::sandbox
