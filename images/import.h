// One import, from the archive to the committed image, as a chain of asynchronous steps:
//
//   split (unpacker) → read and verify (pool) → reserve numbers (pool) → for each new layer:
//   extract (unpacker, two at once) → for each: publish (spawner) → commit (pool)
//
// If a step fails, the layers made so far are removed, then the temporary directory, and then
// `done` is called. An import without a name (ImageStore::ImportLayers) takes the same steps, but
// commits only its layers.
//
// Thread rule: lives on the loop; a pool thread touches only what its step gets.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "images/archive_contents.h"
#include "images/catalog.h"
#include "images/image_store.h"
#include "images/report.h"
#include "images/unpack_runner.h"
#include "runtime/base/loop.h"
#include "runtime/base/unique_fd.h"

namespace atl::images {

struct ImportResult {
  Image primary;              // the image for the caller's `done`
  std::vector<Image> images;  // one for each name
  std::vector<Layer> new_layers;
};

class Import : public std::enable_shared_from_this<Import> {
 public:
  struct Environment {
    Loop& loop;
    UnpackRunner& runner;
    std::string database;   // path
    std::string temporary;  // directory of this import; does not exist yet
    std::string tenant;     // owner of the images
    // The layers at the start of the import, by blob digest: those that the tenant has, and those
    // of other tenants. Another tenant's layer is unpacked once more and then used in place of the
    // copy, so that the import takes the steps, and gives the answer, of one that was new.
    std::map<std::string, Layer> known;
    std::map<std::string, Layer> others;
    int64_t now_ms = 0;
  };
  using Done = std::function<void(Result<ImportResult>)>;
  // `name`: normalised, or empty. `accept`: null for imports with a name.
  Import(Environment environment, UniqueFd archive, std::string name, ImageStore::Accept accept,
         Done done);

  void Start();
  // Called when the owner goes away: no further step is started and `done` is not called.
  void Abandon() { abandoned_ = true; }

  // Returns true if an image of this owner and name is being committed.
  bool Committing(const Image& image) const;

 private:
  // Runs `work` on the pool and then `next` on the loop. If `work` fails, the import ends.
  void OnPool(std::function<Status()> work, std::function<void()> next);
  // Returns a callback for the runner that calls `next`, or ends the import after a failure.
  UnpackRunner::Done Then(std::function<void(const std::string& report)> next);

  Status MakeTemporary();
  void ReadContents(const std::string& report_text);
  Status PlanLayers();
  // Decides the names of the archive's images.
  Status NameImages();
  void ExtractLayers();
  void Extract(size_t index);
  Status Extracted(Layer& layer, const Result<std::string>& report);
  void UseLayersOfOthers();
  void StackLayers();
  void PublishNext();
  void Commit();
  void EndWith(Error error);
  void RemoveNext();
  void Cleanup();

  Environment environment_;
  UniqueFd archive_;
  std::string name_;
  const ImageStore::Accept accept_;
  Done done_;
  bool abandoned_ = false;
  bool committing_ = false;

  UniqueFd directory_;                     // holds the members of the archive
  std::vector<ArchiveContents> contents_;  // one for each image
  std::map<std::string, Layer> layers_;    // the layers of all images, by blob digest
  std::vector<Layer> new_layers_;          // ordered by extraction
  size_t next_ = 0;                        // index into new_layers_
  size_t extracting_ = 0;                  // number of layers being extracted
  bool filling_ = false;                   // ExtractLayers is on the stack
  std::vector<wire::LayerId> to_remove_;
  LeftOut left_out_;
  // the names, each with its index into contents_
  std::vector<std::pair<std::string, size_t>> names_;
  std::vector<Image> images_;  // one for each of contents_
  ImportResult result_;
  std::optional<Error> error_;
};

}  // namespace atl::images
