// Forks: sandboxes with the files and the spec of another, which come about together or not at all.
//
// One copy of what a sandbox has written becomes a layer, and the children are creates that stand
// on it. They hold the layer like every other: when the last of them has gone, so does it. Each is
// launched as any create, but for its record: a child that is built waits until all are, and their
// records are one transaction. So a daemon that dies finds all of them or, without a record, none.
//
// Thread rule: on the loop.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "images/image_store.h"
#include "runtime/base/guard.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/create/check.h"
#include "runtime/sandbox/create/creates.h"
#include "runtime/sandbox/live/pauses.h"
#include "runtime/sandbox/record/caller.h"
#include "runtime/sandbox/snapshots/snapshots.h"
#include "runtime/sandbox/state/attempts.h"
#include "runtime/sandbox/state/machine.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/sandbox/store/store.h"
#include "runtime/sandbox/volumes/object_volumes.h"

namespace atl::sandbox {

// Children of one request: all of them are held before the first is built.
inline constexpr size_t kMaxChildren = 64;

struct WantedFork {
  size_t count = 1;             // at most kMaxChildren
  std::string idempotency_key;  // of the request; empty: none
  std::string fingerprint;      // of what it asks for; with a key
  std::string request_id;       // for the log
};
// All children, which run, or why there is none.
using Forked = std::function<void(const tl::expected<std::vector<Sandbox>, CreateError>&)>;

class Forks {
 public:
  // All parts outlive it.
  struct Parts {
    images::ImageStore& images;
    Snapshots& snapshots;
    ObjectVolumes& objects;
    Store& store;
    Registry& registry;
    Room& room;
    Machine& machine;
    Attempts& attempts;
    const Check& check;
    Creates& creates;
    Pauses& pauses;
  };
  explicit Forks(const Parts& parts) : parts_(parts) {}
  Forks(const Forks&) = delete;
  Forks& operator=(const Forks&) = delete;

  // Makes children with the files that the sandbox has now, and its spec, labels, volumes and
  // deadline; each with an id, tokens and addresses of its own, and none of its processes. `done`
  // is called when all of them run and their records are safe, or with why not: then nothing is
  // left of any. kNotFound; kFailedPrecondition: it does not live, has too many layers, is being
  // copied or ends; else as a create (check.h).
  void Fork(const Caller& caller, const std::string& id, const WantedFork& wanted,
            const Forked& done);

 private:
  struct UnderWay;
  class ChildBuild;

  Result<std::vector<Sandbox>> ChildrenOf(const Caller& caller, const std::string& id,
                                          size_t count);
  // Those that a request has made before.
  std::vector<Sandbox> Made(const std::vector<std::string>& ids) const;
  // The layer is there, or why not.
  void Go(const UnderWay& fork, const Result<uint64_t>& bytes);
  void Built(const std::shared_ptr<UnderWay>& fork, const std::string& child);

  const Parts parts_;
  const Guard guard_;
};

}  // namespace atl::sandbox
