#include "runtime/sandbox/state/names.h"

namespace atl::sandbox {

void Names::Add(const Sandbox& sandbox) {
  const auto found = sandbox.metadata.find(kName);
  if (found != sandbox.metadata.end()) all_.emplace(sandbox.tenant, found->second, sandbox.id);
}

void Names::Remove(const Sandbox& sandbox) {
  const auto found = sandbox.metadata.find(kName);
  if (found != sandbox.metadata.end()) all_.erase({sandbox.tenant, found->second, sandbox.id});
}

std::vector<std::string> Names::Find(const std::string& tenant, const std::string& name) const {
  std::vector<std::string> ids;
  for (auto at = all_.lower_bound({tenant, name, ""}); at != all_.end(); ++at) {
    const auto& [owner, its_name, id] = *at;
    if (owner != tenant || its_name != name) break;
    ids.push_back(id);
  }
  return ids;
}

}  // namespace atl::sandbox
