// Images that are being imported right now, and the sandboxes that wait for them.
//
// Thread rule: on the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "runtime/base/loop.h"
#include "runtime/base/result.h"

namespace atl::sandbox {

class PendingImports {
 public:
  using Id = uint64_t;
  // How far it is, for people.
  using Progress = std::function<std::string()>;
  // `over` comes once, and nothing after it.
  struct Waiter {
    std::function<void(const std::string& text)> progress;  // at once, and again and again
    std::function<void(const Status& imported)> over;
  };

  // At most `limit` sandboxes wait.
  PendingImports(Loop& loop, size_t limit) : loop_(loop), limit_(limit) {}
  PendingImports(const PendingImports&) = delete;
  PendingImports& operator=(const PendingImports&) = delete;
  ~PendingImports() { loop_.Cancel(timer_); }

  // The image of this normalised name is on its way.
  Id Begin(const std::string& image, Progress progress);
  // What became of it: everybody need not wait any longer if it was imported, or if it was the last
  // attempt at this image. Another call with the same id does nothing.
  void End(Id id, const Status& imported);

  bool IsRunning(const std::string& image) const { return images_.contains(image); }
  // kResourceExhausted: as many wait as may.
  Status CheckRoom() const;
  // While IsRunning.
  void Wait(const std::string& image, const std::string& sandbox, Waiter waiter);
  // It waits no more, if it did.
  void Forget(const std::string& image, const std::string& sandbox);
  size_t waiting() const { return waiting_; }

 private:
  struct Image {
    std::map<Id, Progress> attempts;  // never empty
    std::map<std::string, Waiter> waiting;
  };
  void ShowProgress();

  Loop& loop_;
  const size_t limit_;
  std::map<std::string, Image> images_;
  Id last_ = 0;
  size_t waiting_ = 0;
  Loop::Id timer_ = 0;  // runs while somebody waits
};

}  // namespace atl::sandbox
