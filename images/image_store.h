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
#include <set>
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

// What an archive may have.
inline constexpr uint64_t kMaxArchiveBytes = 64ULL << 30;

enum class ArchiveForm { kOci, kDocker };

// An exported image, on disk as long as somebody holds it.
class StoredArchive {
 public:
  virtual ~StoredArchive() = default;
  virtual uint64_t size() const = 0;
  // The next bytes, on the loop; empty at the end. One call at a time.
  virtual void Read(std::function<void(Result<std::string>)> done) = 0;
};

class ImageStore {
 public:
  // `directory` (absolute, owned by the daemon's user, mode 0700) holds images.db and temporary
  // files. Removes what a crash in the middle of an import left behind, unpublished layers
  // included.
  static Result<std::unique_ptr<ImageStore>> Open(const std::string& directory, Loop& loop,
                                                  UnpackRunner& runner);
  virtual ~ImageStore() = default;

  using ImportDone = std::function<void(Result<Image>)>;
  // Imports an OCI image archive (oci-archive, plain or gzip), which need not have the layers that
  // are here. `name` empty: the archive's own
  // org.opencontainers.image.ref.name. An existing name then points to the new image. `done` runs
  // on the loop. On any failure the store is as it was. Concurrent imports are queued.
  virtual void Import(UniqueFd archive, std::string name, ImportDone done) = 0;

  // As Import, of what is to be no image but somebody's layers. `accept` is asked on another
  // thread, by what the archive says of itself, before anything is unpacked. `done` gets an image
  // without a name: its layers go with the next collection, if `layer_in_use` does not know them by
  // then.
  using Accept = std::function<Status(const Image&)>;
  virtual void ImportLayers(UniqueFd archive, Accept accept, ImportDone done) = 0;

  // From memory: never blocks. The name is normalised first.
  virtual Result<Image> Find(std::string_view name) const = 0;
  virtual std::vector<Image> List() const = 0;  // by name

  // By which an archive may do without a layer: of the blobs of all that are here.
  virtual std::set<std::string> LayerDigests() const = 0;

  // What the image is stacked from, topmost first.
  virtual std::vector<Layer> LayersOf(const Image& image) const = 0;

  // Gives the image another name as well, which then no longer means what it meant before.
  // kFailedPrecondition: an import under that name is about to end.
  virtual Result<Image> Tag(std::string_view image, std::string_view name) = 0;

  // A new image of layers that are here, topmost first, which get `config` (the members that an OCI
  // image's config has for a process). What had the name no longer has it. kInvalidArgument: the
  // config; kNotFound: a layer is gone; kFailedPrecondition: as Tag.
  virtual Result<Image> Commit(std::string_view name, std::vector<wire::LayerId> layers,
                               std::string_view config) = 0;

  // Forgets the name; layers that no image uses are removed once no sandbox does. `layer_in_use`
  // answers for running sandboxes and is asked on the loop.
  using InUse = std::function<bool(wire::LayerId)>;
  virtual Status Remove(std::string_view name, InUse layer_in_use) = 0;
  // To be called when a sandbox has gone: removes layers that Remove had to leave.
  virtual void CollectLayers(InUse layer_in_use) = 0;

  // Forgets the images that `dispensable` names, then removes what no image and no sandbox uses.
  // Waits for the end of a running import, which may want any layer. `done` hears, on the loop, of
  // what is really gone.
  struct Pruned {
    std::vector<std::string> images;
    size_t layers = 0;
    uint64_t bytes = 0;
  };
  using Dispensable = std::function<bool(const Image&)>;
  using PruneDone = std::function<void(Result<Pruned>)>;
  virtual void Prune(Dispensable dispensable, InUse layer_in_use, PruneDone done) = 0;

  // Layers that came out of no archive, but are what a sandbox has written (runtime/sandbox). The
  // number of a new one; its directory goes at the next start, unless KeepLayer is called before.
  virtual Result<wire::LayerId> ReserveLayer() = 0;
  // It is published. From now on it goes when no image has it and `layer_in_use` says no.
  // `blob_digest` is a name of its own among all layers.
  virtual Status KeepLayer(const Layer& layer) = 0;
  // A reserved one goes now.
  virtual void DropLayer(wire::LayerId layer) = 0;
  // Whether it is one of these.
  virtual bool IsWritten(wire::LayerId layer) const = 0;
  // Whether it is there, published.
  virtual bool HasLayer(wire::LayerId layer) const = 0;
  // What all of these take together that are there; and those that came out of archives.
  virtual uint64_t WrittenBytes() const = 0;
  virtual uint64_t ImportedBytes() const = 0;

  // Reads what is stored of an image, layer by layer, and compares it with what was imported.
  // `same` says what is wrong with one; of one without `content` only that it could be read.
  struct VerifiedLayer {
    Layer layer;
    Status same;
  };
  using VerifyDone = std::function<void(Result<std::vector<VerifiedLayer>>)>;
  virtual void Verify(std::string_view name, VerifyDone done) = 0;

  // Writes the image as an archive that Import takes, and others do; all of its layers are there.
  // `done` hears, on the loop; kFailedPrecondition: a layer has changed since it was imported.
  using ExportDone = std::function<void(Result<std::shared_ptr<StoredArchive>>)>;
  virtual void Export(const Image& image, ArchiveForm form, ExportDone done) = 0;

  // A file in the store's own directory, unlinked at once: where an upload is kept while it
  // arrives.
  virtual Result<UniqueFd> TemporaryFile() = 0;
};

}  // namespace atl::images
