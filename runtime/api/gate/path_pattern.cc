#include "runtime/api/gate/path_pattern.h"

namespace atl::api {

bool FitsPattern(std::string_view pattern, std::string_view path,
                 std::vector<std::string_view>* places) {
  if (places != nullptr) places->clear();
  while (pattern.starts_with('/') && path.starts_with('/')) {
    pattern.remove_prefix(1);
    path.remove_prefix(1);
    const std::string_view wanted = pattern.substr(0, pattern.find('/'));
    const bool rest = wanted.ends_with(":path}");
    const bool any = wanted.starts_with('{');
    const std::string_view here = rest ? path : path.substr(0, path.find('/'));
    if (any ? here.empty() && !rest : here != wanted) return false;
    if (any && places != nullptr) places->push_back(here);
    pattern.remove_prefix(wanted.size());
    path.remove_prefix(here.size());
  }
  return pattern.empty() && path.empty();
}

}  // namespace atl::api
