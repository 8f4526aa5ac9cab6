// The environment variables of a sandbox's processes.
#pragma once

#include <string>
#include <vector>

#include "runtime/sandbox/record/sandbox.h"

namespace atl::sandbox {

// Tells programs inside which sandbox they run in.
inline constexpr char kIdVariable[] = "OPENSANDBOX_ID";

// Merges the variables of the image and of the request as "NAME=value"; the request wins. Excludes
// kIdVariable.
std::vector<std::string> EnvironmentOf(const Sandbox& sandbox);

}  // namespace atl::sandbox
