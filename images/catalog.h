// images.db: names, configs and layers. Blocks (SQLite); a connection belongs to one thread at a
// time, and an import opens one of its own on its pool thread.
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
  // The ones that images may use.
  Result<std::vector<Layer>> LoadLayers();
  // Numbers whose directories must go: of an import that never ended, or removed half-way.
  Result<std::vector<wire::LayerId>> LoadLeftovers();

  // `count` numbers that were never used before, remembered as leftovers until CommitImages.
  Result<std::vector<wire::LayerId>> ReserveLayers(size_t count);
  // One transaction: `new_layers` become usable, each image replaces what had its name.
  Status CommitImages(const std::vector<Image>& images, const std::vector<Layer>& new_layers);
  Status RemoveImage(const std::string& name);
  // The layers become leftovers.
  Status CondemnLayers(const std::vector<wire::LayerId>& layers);
  // Its directory is gone.
  Status ForgetLayer(wire::LayerId layer);

 private:
  explicit Catalog(sqlite::Db db) : db_(std::move(db)) {}
  Status InsertImage(const Image& image);
  Status MarkReady(const std::vector<Layer>& layers);
  // For what makes it grow; everything else goes on when the disk is full.
  Status CheckRoom();

  sqlite::Db db_;
};

}  // namespace atl::images
