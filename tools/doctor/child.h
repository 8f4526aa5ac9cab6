// Runs a probe in a child process with namespaces of its own, so that nothing it does to mounts or
// links outlives it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/base/result.h"

namespace atl::doctor {

// `flags` are CLONE_NEW…. The probe's error comes back as text.
Status RunInNamespaces(uint64_t flags, const std::function<Status()>& probe);

}  // namespace atl::doctor
