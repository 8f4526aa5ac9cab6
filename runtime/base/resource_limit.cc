#include "runtime/base/resource_limit.h"

#include <algorithm>
#include <cerrno>
#include <string>

namespace atl {

Status LimitResource(__rlimit_resource resource, rlim_t most) {
  const auto call = [&](const char* name) { return name + std::to_string(resource); };
  rlimit limit{most, most};
  if (::setrlimit(resource, &limit) == 0) return {};
  if (errno != EPERM) return FailSys(call("setrlimit "));
  if (::getrlimit(resource, &limit) != 0) return FailSys(call("getrlimit "));
  // RLIM_INFINITY is the largest number.
  limit.rlim_cur = limit.rlim_max = std::min(limit.rlim_max, most);
  if (::setrlimit(resource, &limit) != 0) return FailSys(call("setrlimit "));
  return {};
}

}  // namespace atl
