// The images of one daemon: names, configs and layers, in one SQLite file; the layers themselves
// are numbered directories that the spawner owns. A layer is keyed by the sha256 of its blob as it
// stood in the archive (computed here, in trusted code, never by the unpacker), so that two images
// share it and a hostile archive can at worst spoil the layers that carry its own digests.
//
// Thread rule: lives on the loop; blocking work (hashing, SQLite on import) goes through the Loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "images/image.h"
#include "images/unpack_runner.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::images {

// "python" is "python:latest"; a digest reference or a malformed name is kInvalidArgument.
Result<std::string> NormaliseImageName(std::string_view name);

class ImageStore {
 public:
  // `directory` (absolute, owned by the daemon's user, mode 0700) holds images.db and temporary
  // files. Removes what a crash in the middle of an import left behind, unpublished layers
  // included.
  static Result<std::unique_ptr<ImageStore>> Open(const std::string& directory, Loop& loop,
                                                  UnpackRunner& runner);
  virtual ~ImageStore() = default;

  using ImportDone = std::function<void(Result<Image>)>;
  // Imports an OCI image archive (oci-archive, plain or gzip). `name` empty: the archive's own
  // org.opencontainers.image.ref.name. An existing name then points to the new image. `done` runs
  // on the loop. On any failure the store is as it was. Concurrent imports are queued.
  virtual void Import(UniqueFd archive, std::string name, ImportDone done) = 0;

  // From memory: never blocks. The name is normalised first.
  virtual Result<Image> Find(std::string_view name) const = 0;
  virtual std::vector<Image> List() const = 0;  // by name

  // Forgets the name; layers that no image uses are removed once no sandbox does. `layer_in_use`
  // answers for running sandboxes and is asked on the loop.
  using InUse = std::function<bool(wire::LayerId)>;
  virtual Status Remove(std::string_view name, InUse layer_in_use) = 0;
  // To be called when a sandbox has gone: removes layers that Remove had to leave.
  virtual void CollectLayers(InUse layer_in_use) = 0;

  // A file in the store's own directory, unlinked at once: where an upload is kept while it
  // arrives.
  virtual Result<UniqueFd> TemporaryFile() = 0;
};

}  // namespace atl::images
