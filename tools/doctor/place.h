// Finds the file system of the data directory, which may not exist yet.
#pragma once

#include <string>

namespace atl::doctor {

// Returns the path if it exists, else its nearest existing parent.
std::string ExistingParent(std::string path);

}  // namespace atl::doctor
