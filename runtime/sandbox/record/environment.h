// The environment of what runs in a sandbox.
#pragma once

#include <string>
#include <vector>

#include "runtime/sandbox/record/sandbox.h"

namespace atl::sandbox {

// Programs inside read it to learn which sandbox they are in.
inline constexpr char kIdVariable[] = "OPENSANDBOX_ID";

// The image's variables and the request's, which win, as "NAME=value"; all but kIdVariable.
std::vector<std::string> EnvironmentOf(const Sandbox& sandbox);

}  // namespace atl::sandbox
