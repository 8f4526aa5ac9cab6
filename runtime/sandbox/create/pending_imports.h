// The images that are being imported, and the sandboxes that wait for them.
//
// Thread rule: on the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "runtime/base/fair_places.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"

namespace atl::sandbox {

class PendingImports {
 public:
  using Id = uint64_t;
  // Returns the progress as text for people.
  using Progress = std::function<std::string()>;
  // Calls `progress` repeatedly and `over` once: at the end of the import, or with
  // kDeadlineExceeded when the sandbox has waited for kPatienceUs. The import then continues.
  static constexpr int64_t kPatienceUs = int64_t{3600} * 1000 * 1000;
  struct Waiter {
    std::function<void(const std::string& text)> progress;  // called at once, and then periodically
    std::function<void(const Status& imported)> over;
  };

  // `limit`: the maximum number of waiting sandboxes.
  PendingImports(Loop& loop, size_t limit) : loop_(loop), places_(limit) {}
  PendingImports(const PendingImports&) = delete;
  PendingImports& operator=(const PendingImports&) = delete;
  ~PendingImports();

  // `image` is an ImageKey, here and below.
  //
  // Registers an import of the image.
  Id Begin(const std::string& image, Progress progress);
  // Reports the result of an import. Wakes all waiters if the import succeeded or if no other
  // attempt at this image is left. A repeated call with the same id does nothing.
  void End(Id id, const Status& imported);

  bool IsRunning(const std::string& image) const { return images_.contains(image); }
  // kResourceExhausted: no sandbox of the tenant may wait, too.
  Status CheckRoom(const std::string& tenant) const;
  // Requires IsRunning. `tenant`: the owner of the sandbox.
  void Wait(const std::string& image, const std::string& tenant, const std::string& sandbox,
            Waiter waiter);
  // Removes a sandbox's waiter, if there is one.
  void Forget(const std::string& sandbox);
  size_t waiting() const { return waiting_; }

 private:
  struct Waiting {
    Waiter waiter;
    Loop::Id deadline = 0;
    FairPlaces::Place place;
  };
  struct Image {
    std::map<Id, Progress> attempts;         // never empty
    std::map<std::string, Waiting> waiting;  // keys: ids of sandboxes
  };
  void ShowProgress();
  void GiveUp(const std::string& image, const std::string& sandbox);

  Loop& loop_;
  FairPlaces places_;
  std::map<std::string, Image> images_;
  Id last_ = 0;
  size_t waiting_ = 0;
  Loop::Id timer_ = 0;  // runs while a sandbox waits
};

}  // namespace atl::sandbox
