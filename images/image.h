// An imported image, as the rest of Atoll sees it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/wire/layer.h"

namespace atl::images {

// The part of the image's OCI config that a sandbox needs.
struct ImageConfig {
  std::vector<std::string> env;         // "NAME=value"
  std::vector<std::string> entrypoint;  // may be empty
  std::vector<std::string> cmd;         // may be empty
  std::string working_dir;              // may be empty
  std::string user;                     // unchanged text; resolved within the sandbox
  std::string architecture;             // "amd64", …

  // Members for users and for builds on this image.
  std::map<std::string, std::string> labels;
  std::vector<std::string> exposed_ports;  // "80/tcp"
  std::vector<std::string> volumes;        // paths of directories
  std::vector<std::string> shell;          // used for the shell form of a Dockerfile's instructions
  std::string stop_signal;
};

// Counts of what an import skipped, because no sandbox could use it.
struct LeftOut {
  uint64_t devices = 0;     // device nodes
  uint64_t attributes = 0;  // extended attributes
  uint64_t entries = 0;     // entries with names that no file can have
  uint64_t owners = 0;      // entries with ids above those of a sandbox; they belong to `nobody`
};

struct Image {
  std::string name;    // normalised "repository:tag", the form of create requests
  std::string digest;  // digest of the manifest, "sha256:…"
  ImageConfig config;
  std::vector<wire::LayerId> layers;  // topmost first, in the order of a Plan
  uint64_t size_bytes = 0;            // sum of the unpacked layers
  int64_t created_at_ms = 0;          // time of the import
  std::string tenant;                 // owner; empty: the host, and every tenant may use it
  // Facts about the snapshot that the archive holds (runtime/sandbox/snapshot_facts.h); otherwise
  // empty. Part of an archive, but not stored with an image.
  std::string facts;
  // Set by the import that made the image, for layers that were new. Not stored.
  LeftOut left_out;
  // Set by the import: all names that it gave, beginning with `name`. Not stored.
  std::vector<std::string> given_names;
};

struct Layer {
  wire::LayerId id = 0;
  std::string blob_digest;   // digest of the blob as imported; the layer's key
  std::string diff_id;       // digest of the tar in it
  uint64_t size_bytes = 0;   // unpacked
  bool opaque_root = false;  // hides all layers below it
  std::string content;       // digest of the tar that its tree packs to; empty: not recorded
};

}  // namespace atl::images
