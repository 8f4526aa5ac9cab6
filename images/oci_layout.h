// Parses the three JSON documents of an OCI image archive, in the forms of the OCI image
// specification 1.1 and of Docker's schema 2. Pure functions over hostile bytes. Nothing in a
// result has been compared with a digest yet, but every string in it has been checked for form and
// length.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "images/image.h"
#include "runtime/base/result.h"

namespace atl::images {

// The architecture that images must be built for: "amd64", "arm64".
std::string_view HostArchitecture();

// Returns true if a document of that media type is an index, not a manifest.
bool IsIndexType(std::string_view type);

struct Descriptor {
  std::string digest;  // valid for IsSha256Digest
  uint64_t size = 0;
  std::string media_type;
  std::string ref_name;  // only index entries have one; may be empty
  bool is_index = false;
};

// Returns the manifest, or the nested index, for this host's platform. Of several, returns the one
// named `wanted` (in any spelling; may be empty). An entry without a platform counts as matching.
Result<Descriptor> ChooseManifest(std::string_view index_json, std::string_view wanted);
// Like ChooseManifest, but returns all matching entries if `wanted` is empty. At least one.
Result<std::vector<Descriptor>> ChooseManifests(std::string_view index_json,
                                                std::string_view wanted);

struct Manifest {
  Descriptor config;
  std::vector<Descriptor> layers;  // lowest first, at most wire::kMaxLayers
};
Result<Manifest> ParseManifest(std::string_view json);

// The label of a config that holds Image::facts. A label is used and no annotation, because every
// archive format keeps labels, and so do registries and other tools.
inline constexpr char kFactsLabel[] = "atoll.snapshot";

struct ParsedConfig {
  ImageConfig config;
  std::string facts;                  // may be empty
  std::vector<std::string> diff_ids;  // lowest first
};
Result<ParsedConfig> ParseConfig(std::string_view json);

// The form of the config in the store's database.
std::string EncodeImageConfig(const ImageConfig& config);
Result<ImageConfig> DecodeImageConfig(std::string_view json);

}  // namespace atl::images
