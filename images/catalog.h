// The database images.db: names, configs and layers. Every call blocks (SQLite). A connection
// belongs to one thread at a time; an import opens its own on its pool thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "images/image.h"
#include "runtime/base/result.h"
#include "runtime/base/sqlite.h"

namespace atl::images {

class Catalog {
 public:
  // Brings a file of an older release to this one's schema. kFailedPrecondition: a newer Atoll has
  // written it.
  static Result<Catalog> Open(const std::string& path);

  Result<std::vector<Image>> LoadImages();
  // Returns the layers that images may use.
  Result<std::vector<Layer>> LoadLayers();
  // Returns the layers whose directories must be removed, because an import was interrupted or a
  // removal was not finished.
  Result<std::vector<wire::LayerId>> LoadLeftovers();

  // Reserves `count` layer numbers that were never used before. They count as leftovers until
  // CommitImages.
  Result<std::vector<wire::LayerId>> ReserveLayers(size_t count);
  // Makes `new_layers` usable and stores the images in one transaction. Each image replaces the
  // former one of its owner and name.
  Status CommitImages(const std::vector<Image>& images, const std::vector<Layer>& new_layers);
  // `key`: see ImageKey.
  Status RemoveImage(const std::string& key);
  // Turns the layers into leftovers.
  Status CondemnLayers(const std::vector<wire::LayerId>& layers);
  // Deletes the record of a layer whose directory is gone.
  Status ForgetLayer(wire::LayerId layer);

 private:
  explicit Catalog(sqlite::Db db) : db_(std::move(db)) {}
  Status InsertImage(const Image& image);
  Status MarkReady(const std::vector<Layer>& layers);
  // Fails if the disk has no room for a record. Called before operations that grow the database;
  // all others still work on a full disk.
  Status CheckRoom();

  sqlite::Db db_;
};

}  // namespace atl::images
