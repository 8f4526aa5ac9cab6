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

// Returns the key of an image that the tenant owns: its normalised name, and behind it the tenant
// if that is not the host. A name contains no '@'.
std::string ImageKey(const std::string& tenant, const std::string& name);

}  // namespace atl::images
