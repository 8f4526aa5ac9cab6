// What an imported image is to the rest of Atoll.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/wire/layer.h"

namespace atl::images {

// From the image's OCI config; only what a sandbox needs.
struct ImageConfig {
  std::vector<std::string> env;         // "NAME=value"
  std::vector<std::string> entrypoint;  // may be empty
  std::vector<std::string> cmd;         // may be empty
  std::string working_dir;              // may be empty
  std::string user;                     // as written; resolved inside the sandbox
  std::string architecture;             // "amd64", …

  // For people, and for who builds on it.
  std::map<std::string, std::string> labels;
  std::vector<std::string> exposed_ports;  // "80/tcp"
  std::vector<std::string> volumes;        // directories
  std::vector<std::string> shell;          // of the shell form of a Dockerfile's instructions
  std::string stop_signal;
};

// What an import did not take of the archive's layers, because no sandbox could use it.
struct LeftOut {
  uint64_t devices = 0;     // device nodes
  uint64_t attributes = 0;  // extended attributes
  uint64_t entries = 0;     // of names that no file can have
  uint64_t owners = 0;      // above the ids of a sandbox; `nobody` has the file
};

struct Image {
  std::string name;    // normalised "repository:tag", what create requests name
  std::string digest;  // of the manifest, "sha256:…"
  ImageConfig config;
  std::vector<wire::LayerId> layers;  // topmost first, as a Plan wants them
  uint64_t size_bytes = 0;            // of the unpacked layers
  int64_t created_at_ms = 0;          // when it was imported
  // What the archive of a snapshot says beside (runtime/sandbox/snapshot_facts.h); else empty. It
  // travels in an archive and is not kept of an image.
  std::string facts;
  // Told by the import that made it, of the layers that were not here before; not kept.
  LeftOut left_out;
  // Likewise: all names that the import gave, this one first.
  std::vector<std::string> given_names;
};

struct Layer {
  wire::LayerId id = 0;
  std::string blob_digest;   // as it came; the layer's key
  std::string diff_id;       // of the tar inside
  uint64_t size_bytes = 0;   // unpacked
  bool opaque_root = false;  // shows nothing of the layers below it
  std::string content;       // of the tar that its tree is packed as; empty: it was not recorded
};

}  // namespace atl::images
