// Images that are being imported right now, and the sandboxes that wait for them.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace atl::sandbox {

class PendingImports {
 public:
  using Id = uint64_t;
  // How far it is, for people.
  using Progress = std::function<std::string()>;

  Id Begin(const std::string& image, Progress progress);
  bool IsRunning(const std::string& image) const { return images_.contains(image); }

  // While IsRunning.
  void Wait(const std::string& image, const std::string& sandbox);
  // It waits no more, if it did.
  void Forget(const std::string& image, const std::string& sandbox);
  size_t waiting() const { return waiting_; }
  void ForEachWaiting(const std::function<void(const std::string& sandbox,
                                               const std::string& progress)>& visit) const;

  // Who need not wait any longer: everybody if it was `imported`, or if it was the last attempt at
  // this image. Another call with the same id does nothing.
  std::vector<std::string> End(Id id, bool imported);

 private:
  struct Image {
    std::map<Id, Progress> attempts;  // never empty
    std::set<std::string> waiting;
  };
  std::map<std::string, Image> images_;
  Id last_ = 0;
  size_t waiting_ = 0;
};

}  // namespace atl::sandbox
