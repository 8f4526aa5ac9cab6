// Reads every layer of an image again, and compares it with what was imported.
//
// Thread rule: lives on the loop.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "images/image_store.h"
#include "images/unpack_runner.h"
#include "runtime/base/unique_fd.h"

namespace atl::images {

class Verify : public std::enable_shared_from_this<Verify> {
 public:
  // `null`: /dev/null, open for writing. After `owner` has expired, no further step is started and
  // `done` is not called.
  Verify(std::weak_ptr<bool> owner, UnpackRunner& runner, std::vector<Layer> layers, UniqueFd null,
         std::function<void(std::vector<ImageStore::VerifiedLayer>)> done);

  void Start() { Next(); }

 private:
  void Next();

  const std::weak_ptr<bool> owner_;
  UnpackRunner& runner_;
  const std::vector<Layer> layers_;
  const UniqueFd null_;
  std::function<void(std::vector<ImageStore::VerifiedLayer>)> done_;
  std::vector<ImageStore::VerifiedLayer> verified_;
};

}  // namespace atl::images
