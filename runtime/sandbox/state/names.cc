#include "runtime/sandbox/state/names.h"

namespace atl::sandbox {

void Names::Add(const Sandbox& sandbox) {
  const auto found = sandbox.metadata.find(kName);
  if (found != sandbox.metadata.end()) all_.emplace(found->second, sandbox.id);
}

void Names::Remove(const Sandbox& sandbox) {
  const auto found = sandbox.metadata.find(kName);
  if (found != sandbox.metadata.end()) all_.erase({found->second, sandbox.id});
}

std::vector<std::string> Names::Find(const std::string& name) const {
  std::vector<std::string> ids;
  for (auto at = all_.lower_bound({name, ""}); at != all_.end() && at->first == name; ++at) {
    ids.push_back(at->second);
  }
  return ids;
}

}  // namespace atl::sandbox
