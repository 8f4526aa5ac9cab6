// What an imported image is to the rest of Atoll.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/wire/plan.h"

namespace atl::images {

// From the image's OCI config; only what a sandbox needs.
struct ImageConfig {
  std::vector<std::string> env;         // "NAME=value"
  std::vector<std::string> entrypoint;  // may be empty
  std::vector<std::string> cmd;         // may be empty
  std::string working_dir;              // may be empty
  std::string user;                     // as written; resolved inside the sandbox
  std::string architecture;             // "amd64", …
};

struct Image {
  std::string name;    // normalised "repository:tag", what create requests name
  std::string digest;  // of the manifest, "sha256:…"
  ImageConfig config;
  std::vector<wire::LayerId> layers;  // topmost first, as a Plan wants them
  uint64_t size_bytes = 0;            // of the unpacked layers
  int64_t created_at_ms = 0;          // when it was imported
};

}  // namespace atl::images
