// The images of one daemon. Names, configs and layers are in one SQLite file. The layers themselves
// are numbered directories that the spawner owns. A layer's key is the sha256 of its blob in the
// archive, computed here, in trusted code, never by the unpacker. Therefore images share equal
// layers, and a hostile archive can at worst spoil layers with its own digests.
//
// An image belongs to a tenant, or to the host. A name means the caller's own image, else the
// host's: every tenant may use the host's images, and nobody but their owner changes or removes
// them. A tenant has the layers of the images that it may use. An import that names another layer
// has to bring it, and learns from no answer that the store had it.
//
// Thread rule: lives on the loop; blocking work (hashing, SQLite during imports) goes through the
// Loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "images/caller.h"
#include "images/image.h"
#include "images/image_name.h"
#include "images/unpack_runner.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::images {

// Largest archive.
inline constexpr uint64_t kMaxArchiveBytes = 64ULL << 30;

enum class ArchiveForm { kOci, kDocker };

// An exported image. Its file on disk exists as long as this object.
class StoredArchive {
 public:
  virtual ~StoredArchive() = default;
  virtual uint64_t size() const = 0;
  // Reads the next bytes; empty at the end. `done` is called on the loop. One call at a time.
  virtual void Read(std::function<void(Result<std::string>)> done) = 0;
};

class ImageStore {
 public:
  // Opens the store in `directory` (absolute, owned by the daemon's user, mode 0700), which holds
  // images.db and temporary files. Removes what an interrupted import has left behind, including
  // unpublished layers.
  static Result<std::unique_ptr<ImageStore>> Open(const std::string& directory, Loop& loop,
                                                  UnpackRunner& runner);
  virtual ~ImageStore() = default;

  using ImportDone = std::function<void(Result<Image>)>;
  // Imports an OCI image archive (oci-archive, plain or gzip) for the caller's tenant. The archive
  // may lack layers that the tenant has. `name` empty: uses the archive's
  // org.opencontainers.image.ref.name. An existing image of that owner and name is replaced. `done`
  // runs on the loop. If anything fails, the store is unchanged. Concurrent imports are queued.
  virtual void Import(const Caller& caller, UniqueFd archive, std::string name,
                      ImportDone done) = 0;

  // Like Import, but makes no image: the layers are for the caller. `accept` is called on another
  // thread, with what the archive says about itself, before anything is unpacked. `done` gets an
  // image without a name. Its layers are removed by the next collection unless `layer_in_use` knows
  // them by then.
  using Accept = std::function<Status(const Image&)>;
  virtual void ImportLayers(const Caller& caller, UniqueFd archive, Accept accept,
                            ImportDone done) = 0;

  // Finds an image by its name, which is normalised first. Reads memory only; never blocks.
  virtual Result<Image> Find(const Caller& caller, std::string_view name) const = 0;
  // Returns the images that the caller sees, and those of the host, sorted by name.
  virtual std::vector<Image> List(const Caller& caller) const = 0;

  // Returns the blob digests of the layers that the caller's tenant has. An archive may lack these
  // layers.
  virtual std::set<std::string> LayerDigests(const Caller& caller) const = 0;

  // Returns the image's layers, topmost first.
  virtual std::vector<Layer> LayersOf(const Image& image) const = 0;

  // Gives the image an additional name of the caller's tenant. An image of the tenant that had this
  // name loses it. kFailedPrecondition: an import is just committing that name.
  virtual Result<Image> Tag(const Caller& caller, std::string_view image,
                            std::string_view name) = 0;

  // Makes a new image of existing layers, topmost first, with `config` (the process members of an
  // OCI image config), for the caller's tenant. An image of the tenant that had this name loses
  // it. kInvalidArgument: the config is wrong. kNotFound: a layer is gone. kFailedPrecondition: as
  // in Tag.
  virtual Result<Image> Commit(const Caller& caller, std::string_view name,
                               std::vector<wire::LayerId> layers, std::string_view config) = 0;

  // Removes the name. Layers that no image uses are removed once no sandbox uses them.
  // `layer_in_use` is called on the loop and answers for sandboxes.
  using InUse = std::function<bool(wire::LayerId)>;
  // kPermissionDenied: the name means an image of the host, and the caller is a tenant.
  virtual Status Remove(const Caller& caller, std::string_view name, InUse layer_in_use) = 0;
  // Call when a sandbox is gone: removes layers that Remove had to keep.
  virtual void CollectLayers(InUse layer_in_use) = 0;

  // Removes the images for which `dispensable` is true, and then all layers that no image and no
  // sandbox uses. Waits for a running import, which may need any layer. `done` is called on the
  // loop with what was really removed.
  struct Pruned {
    std::vector<std::string> images;
    size_t layers = 0;
    uint64_t bytes = 0;
  };
  using Dispensable = std::function<bool(const Image&)>;
  using PruneDone = std::function<void(Result<Pruned>)>;
  virtual void Prune(Dispensable dispensable, InUse layer_in_use, PruneDone done) = 0;

  // Reserves the number of a layer that comes from a sandbox's files (runtime/sandbox) and not from
  // an archive. Its directory is removed at the next start unless KeepLayer is called before.
  virtual Result<wire::LayerId> ReserveLayer() = 0;
  // Records a reserved layer after it was published. From then on it is removed when no image uses
  // it and `layer_in_use` returns false. `blob_digest` must be unique among all layers.
  virtual Status KeepLayer(const Layer& layer) = 0;
  // Removes a reserved layer now.
  virtual void DropLayer(wire::LayerId layer) = 0;
  // Returns true if the layer comes from a sandbox's files.
  virtual bool IsWritten(wire::LayerId layer) const = 0;
  // Returns true if the layer is published.
  virtual bool HasLayer(wire::LayerId layer) const = 0;
  // Sum of the sizes of the layers from sandboxes, and of those from archives.
  virtual uint64_t WrittenBytes() const = 0;
  virtual uint64_t ImportedBytes() const = 0;

  // Reads all stored layers of an image and compares them with what was imported. `same` says what
  // is wrong with a layer. A layer without `content` is only checked to be readable.
  struct VerifiedLayer {
    Layer layer;
    Status same;
  };
  using VerifyDone = std::function<void(Result<std::vector<VerifiedLayer>>)>;
  virtual void Verify(const Caller& caller, std::string_view name, VerifyDone done) = 0;

  // Writes the image as an archive that Import and other tools accept. `done` is called on the
  // loop. kFailedPrecondition: a layer has changed since it was imported.
  using ExportDone = std::function<void(Result<std::shared_ptr<StoredArchive>>)>;
  virtual void Export(const Image& image, ArchiveForm form, ExportDone done) = 0;

  // Creates an unlinked file in the store's directory, for an upload while it arrives.
  virtual Result<UniqueFd> TemporaryFile() = 0;
};

}  // namespace atl::images
