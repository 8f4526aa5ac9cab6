// Names of images.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::images {

// Returns the normal form of an image name: "python" becomes "python:latest",
// "docker.io/library/python:3.11" becomes "python:3.11". kInvalidArgument: malformed, or a
// reference by digest. Also declared by images/image_store.h.
Result<std::string> NormaliseImageName(std::string_view name);

}  // namespace atl::images
