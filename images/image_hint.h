// What to do about an image that is not here: for every message that says so.
#pragma once

#include <string>
#include <vector>

namespace atl::images {

// "; did you mean 'python:3.11'? …", of the image here that may have been meant, the recipe that
// makes such an image, and the commands that bring it. `name` is normalised, `known` are the names
// of the images that are here.
std::string HintForImage(const std::string& name, const std::vector<std::string>& known);

}  // namespace atl::images
