// Parses manifest.json of an archive that 'docker save' made: a list of images, each with the paths
// of its config and layers within the archive. A pure function over hostile bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace atl::images {

inline constexpr size_t kMaxDockerImages = 256;
inline constexpr size_t kMaxDockerTags = 1024;  // sum over all images

struct DockerImage {
  std::string config;               // path as written in the archive
  std::vector<std::string> layers;  // paths, lowest first, at most wire::kMaxLayers
  std::vector<std::string> tags;    // "repository:tag"; may be empty
};
Result<std::vector<DockerImage>> ParseDockerManifest(std::string_view json);

}  // namespace atl::images
