// Where on disk the data directory is, or will be.
#pragma once

#include <string>

namespace atl::doctor {

// The path itself if it exists, else the nearest parent that does.
std::string ExistingParent(std::string path);

}  // namespace atl::doctor
