// The three JSON documents of an OCI image archive, as the OCI image specification 1.1 and Docker's
// schema 2 have them. Pure functions over hostile bytes: nothing in a result has been compared with
// a digest yet, but every string in it has its form and its bounds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "images/image.h"
#include "runtime/base/result.h"

namespace atl::images {

// What the images of this host must be built for: "amd64", "arm64".
std::string_view HostArchitecture();

// Whether a document of that media type lists manifests, and is none.
bool IsIndexType(std::string_view type);

struct Descriptor {
  std::string digest;  // IsSha256Digest
  uint64_t size = 0;
  std::string media_type;
  std::string ref_name;  // of an index entry; may be empty
  bool is_index = false;
};

// The manifest, or the nested index, for this host's platform. If several images fit, the one whose
// name is `wanted` (any spelling; may be empty). Entries without platform are taken to fit.
Result<Descriptor> ChooseManifest(std::string_view index_json, std::string_view wanted);
// Likewise for who takes all that fit: the one that is `wanted`, or every entry for this platform
// if nothing is wanted. At least one.
Result<std::vector<Descriptor>> ChooseManifests(std::string_view index_json,
                                                std::string_view wanted);

struct Manifest {
  Descriptor config;
  std::vector<Descriptor> layers;  // lowest first, at most wire::kMaxLayers
};
Result<Manifest> ParseManifest(std::string_view json);

// The label of a config that holds Image::facts. A label and no annotation: every form of archive
// has labels, and so has what a registry or another tool makes of one.
inline constexpr char kFactsLabel[] = "atoll.snapshot";

struct ParsedConfig {
  ImageConfig config;
  std::string facts;                  // may be empty
  std::vector<std::string> diff_ids;  // lowest first
};
Result<ParsedConfig> ParseConfig(std::string_view json);

// The config as it is kept in the store's database.
std::string EncodeImageConfig(const ImageConfig& config);
Result<ImageConfig> DecodeImageConfig(std::string_view json);

}  // namespace atl::images
