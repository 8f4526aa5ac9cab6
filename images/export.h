// One export: packs the image's layers one after the other into an archive, and adds the documents
// that describe them. The packed content is compared with what was imported.
//
// Layers are stored unpacked. The archive's layers are therefore uncompressed tars, packed anew
// from the stored trees, and their digests and the image's digest differ from those of a registry.
// The same image always gives the same archive.
//
// Thread rule: lives on the loop; the pool writes to the archive's file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "images/image_archive.h"
#include "images/image_store.h"
#include "images/unpack_runner.h"
#include "runtime/base/loop.h"
#include "runtime/base/unique_fd.h"

namespace atl::images {

// Compares the digest of a packed layer with the recorded one. Succeeds if they are equal, or if
// the layer was imported before contents were recorded.
Status CompareContent(const Layer& layer, const std::string& content);

class Export : public std::enable_shared_from_this<Export> {
 public:
  using Done = std::function<void(Result<UniqueFd>)>;
  // `layers`: lowest first. `file`: empty, open for reading and writing. After `owner` has expired,
  // no further step is started and `done` is not called.
  Export(std::weak_ptr<bool> owner, Loop& loop, UnpackRunner& runner, Image image,
         std::vector<Layer> layers, ArchiveForm form, UniqueFd file, Done done);

  void Start() { PackNext(); }

 private:
  // Runs `work` on the pool and then `next` on the loop. If `work` fails, the export ends.
  void OnPool(std::function<Status()> work, std::function<void()> next);
  void PackNext();
  void Packed(const Result<std::string>& report);
  Status Finish();
  Status FinishOci(const std::string& config);
  Status FinishDocker(const std::string& config);

  const std::weak_ptr<bool> owner_;
  Loop& loop_;
  UnpackRunner& runner_;
  const Image image_;
  const std::vector<Layer> layers_;
  const ArchiveForm form_;
  UniqueFd file_;
  ImageArchive archive_;  // the archive in file_
  Done done_;
  struct Packing {
    std::string content;
    uint64_t size = 0;
  };
  std::vector<Packing> packed_;
};

}  // namespace atl::images
