// One import, from the archive to the committed image, as a chain of asynchronous steps:
//
//   split (unpacker) → read and verify (pool) → reserve numbers (pool) → for each new layer:
//   extract (unpacker, two at once) → for each: publish (spawner) → commit (pool)
//
// On a failure anywhere: the layers made so far are removed, then the temporary directory, then
// `done` hears of it. What is imported without a name (ImageStore::ImportLayers) takes the same
// way; its layers are committed, and no image.
//
// Thread rule: lives on the loop; a pool thread touches only what a step hands to it.
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
  Image told;                 // to whoever asked for the import
  std::vector<Image> images;  // one for each name
  std::vector<Layer> new_layers;
};

class Import : public std::enable_shared_from_this<Import> {
 public:
  struct Environment {
    Loop& loop;
    UnpackRunner& runner;
    std::string database;                // path
    std::string temporary;               // directory of this import; does not exist yet
    std::map<std::string, Layer> known;  // by blob digest, when the import starts
    int64_t now_ms = 0;
  };
  using Done = std::function<void(Result<ImportResult>)>;
  // `name`: normalised, or empty. `accept`: null for what gets a name.
  Import(Environment environment, UniqueFd archive, std::string name, ImageStore::Accept accept,
         Done done);

  void Start();
  // The owner goes away: no further step is begun and `done` is not called.
  void Abandon() { abandoned_ = true; }

  // Whether the commit of this name is under way.
  bool Committing(const std::string& name) const;

 private:
  // Runs `work` on the pool and `next` on the loop; a failure of `work` ends the import.
  void OnPool(std::function<Status()> work, std::function<void()> next);
  // The callback of a runner's call: failures end the import, or else `next`.
  UnpackRunner::Done Then(std::function<void(const std::string& report)> next);

  Status MakeTemporary();
  void ReadContents(const std::string& report_text);
  Status PlanLayers();
  // What the archive's images are called.
  Status NameImages();
  void ExtractLayers();
  void Extract(size_t index);
  Status Extracted(Layer& layer, const Result<std::string>& report);
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

  UniqueFd directory_;                     // where the members of the archive are
  std::vector<ArchiveContents> contents_;  // of each image
  std::map<std::string, Layer> layers_;    // of them all, by blob digest
  std::vector<Layer> new_layers_;          // in the order of extraction
  size_t next_ = 0;                        // index into new_layers_
  size_t extracting_ = 0;                  // of them, now
  bool filling_ = false;                   // ExtractLayers is on the stack
  std::vector<wire::LayerId> to_remove_;
  LeftOut left_out_;
  std::vector<std::pair<std::string, size_t>> names_;  // and which of `contents_` has it
  std::vector<Image> images_;                          // of each of `contents_`
  ImportResult result_;
  std::optional<Error> error_;
};

}  // namespace atl::images
