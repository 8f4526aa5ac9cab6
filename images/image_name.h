// How images are called.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace atl::images {

// "python" is "python:latest", "docker.io/library/python:3.11" is "python:3.11"; a digest reference
// or a malformed name is kInvalidArgument. Also declared by images/image_store.h.
Result<std::string> NormaliseImageName(std::string_view name);

}  // namespace atl::images
