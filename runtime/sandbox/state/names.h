// Index of sandboxes by tenant and name, because a create with a unique name must not scan all
// sandboxes.
//
// Thread rule: on the loop.
#pragma once

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/sandbox/record/sandbox.h"

namespace atl::sandbox {

class Names {
 public:
  // Call Remove before and Add after each change of a sandbox's metadata. Both do nothing for a
  // sandbox without a name.
  void Add(const Sandbox& sandbox);
  void Remove(const Sandbox& sandbox);
  // Returns the ids of all sandboxes of the tenant that have the name.
  std::vector<std::string> Find(const std::string& tenant, const std::string& name) const;
  void Clear() { all_.clear(); }

 private:
  std::set<std::tuple<std::string, std::string, std::string>> all_;  // tenant, name, id
};

}  // namespace atl::sandbox
