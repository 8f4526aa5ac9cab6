// Runs a probe in a child process with its own namespaces, so that its mounts and links end with
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/base/result.h"

namespace atl::doctor {

// `flags` are CLONE_NEW…. The error of the probe comes back as text.
Status RunInNamespaces(uint64_t flags, const std::function<Status()>& probe);

}  // namespace atl::doctor
