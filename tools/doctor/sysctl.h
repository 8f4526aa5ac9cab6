// Reads kernel settings as text.
#pragma once

#include <string>

namespace atl::doctor {

// Reads a file in /proc/sys; empty if it does not exist.
std::string ReadSysctl(const std::string& name);

}  // namespace atl::doctor
