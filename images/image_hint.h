// Suggests what to do about a missing image. Used by every message that reports one.
#pragma once

#include <string>
#include <vector>

namespace atl::images {

// Returns a hint such as "; did you mean 'python:3.11'? …": the image that was probably meant, the
// recipe that builds such an image, and the commands to get it. `name` is normalised; `known` are
// the names of the images in the store.
std::string HintForImage(const std::string& name, const std::vector<std::string>& known);

}  // namespace atl::images
