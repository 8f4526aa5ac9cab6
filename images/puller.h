// Images that are not here, fetched from their registries, as far as the operator lets us.
//
// Thread rule: lives on the loop; what blocks is done by two threads of its own, so that a registry
// that is slow keeps nobody else from the pool.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "images/image_store.h"
#include "images/registry/credentials.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"

namespace atl::images {

class Puller {
 public:
  struct Config {
    std::vector<std::string> rules;  // registry::CheckPullRule; none: nothing is fetched
    std::string auth_file;           // who we are, read anew each time; empty: nobody
    std::string authorities;         // PEM file of whom to believe; empty: as the host does
  };
  static std::unique_ptr<Puller> Create(Loop& loop, ImageStore& images, Config config);
  // Waits for what is under way; nobody hears of it.
  virtual ~Puller() = default;

  // Whether the image of this normalised name may be fetched.
  virtual bool MayPull(const std::string& name) const = 0;
  // kUnavailable: as many images are being fetched, or wait for it, as may.
  virtual Status CheckRoom() const = 0;

  // How far it is, for people; as long as somebody holds it.
  using Progress = std::function<std::string()>;
  // Fetches and imports it; `done` hears of the end, on the loop, later. `credentials`: of whoever
  // asks, instead of the operator's.
  virtual Progress Pull(const std::string& name, Credentials credentials,
                        std::function<void(const Status&)> done) = 0;
};

}  // namespace atl::images
