// One export: the image's layers, packed one after the other into one archive, and the documents
// that say what they are. What is packed is compared with what was imported.
//
// Layers are stored unpacked, so the archive's are uncompressed tars of their trees, made anew:
// their digests, and with them the image's, are not those that a registry has. The same image gives
// the same archive.
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

// What a packed layer differs in from what it was; nothing of it if it is the same, or if it was
// imported before contents were recorded.
Status CompareContent(const Layer& layer, const std::string& content);

class Export : public std::enable_shared_from_this<Export> {
 public:
  using Done = std::function<void(Result<UniqueFd>)>;
  // `layers`: lowest first. `file`: empty, open for reading and writing. Once `owner` has expired
  // no further step is begun and `done` is not called.
  Export(std::weak_ptr<bool> owner, Loop& loop, UnpackRunner& runner, Image image,
         std::vector<Layer> layers, ArchiveForm form, UniqueFd file, Done done);

  void Start() { PackNext(); }

 private:
  // Runs `work` on the pool and `next` on the loop; a failure of `work` ends the export.
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
  ImageArchive archive_;  // in it
  Done done_;
  struct Packing {
    std::string content;
    uint64_t size = 0;
  };
  std::vector<Packing> packed_;
};

}  // namespace atl::images
