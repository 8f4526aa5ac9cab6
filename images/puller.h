// Fetches missing images from their registries, as far as the operator allows it.
//
// Thread rule: lives on the loop. Two threads of its own do the blocking work, so that a slow
// registry does not occupy the shared pool.
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
    std::vector<std::string> rules;  // registry::CheckPullRule; empty: nothing is fetched
    std::string auth_file;    // credentials for registries, read anew for each pull; empty: none
    std::string authorities;  // PEM file of trusted authorities; empty: those of the host
  };
  // kResourceExhausted: the kernel allows no more threads.
  static Result<std::unique_ptr<Puller>> Create(Loop& loop, ImageStore& images, Config config);
  // Blocks until pulls in flight have ended. Their callbacks are not called.
  virtual ~Puller() = default;

  // Returns true if the image of this normalised name may be fetched.
  virtual bool MayPull(const std::string& name) const = 0;
  // kUnavailable: the limit of running and waiting pulls is reached, or the caller's tenant has to
  // leave the rest to others (fair_places.h).
  virtual Status CheckRoom(const Caller& caller) const = 0;

  // Returns the progress as text for users. Keeps the pull's counters alive.
  using Progress = std::function<std::string()>;
  // Fetches and imports the image for the caller's tenant. `done` is called once, on the loop,
  // never from within this call. `credentials`: of the client, used instead of the operator's.
  virtual Progress Pull(const Caller& caller, const std::string& name, Credentials credentials,
                        std::function<void(const Status&)> done) = 0;
};

}  // namespace atl::images
