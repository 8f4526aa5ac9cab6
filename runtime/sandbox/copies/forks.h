// Forks: new sandboxes with the files and the spec of an existing one. A fork makes all its
// children or none.
//
// The spawner copies the parent's written files into one layer, and the children are creates on top
// of that layer. They use the layer like any other, so it is removed when the last child is gone.
// Each child is launched like any create, except for its record: a built child waits until all are
// built, and one transaction writes all records. So a restarted daemon finds all children or,
// without records, none.
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
#include "runtime/sandbox/snapshots/snapshots.h"
#include "runtime/sandbox/state/attempts.h"
#include "runtime/sandbox/state/machine.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/sandbox/store/store.h"
#include "runtime/sandbox/volumes/object_volumes.h"
#include "runtime/tenants/caller.h"

namespace atl::sandbox {

// Limit of children per request, because the host must have room for all before the first is built.
inline constexpr size_t kMaxChildren = 64;

struct WantedFork {
  size_t count = 1;             // up to kMaxChildren
  std::string idempotency_key;  // the Idempotency-Key; empty: none
  std::string fingerprint;      // fingerprint of what it asks for, if there is a key
  std::string request_id;       // names the request in the log
};
// Gets all children, which run, or an error.
using Forked = std::function<void(const tl::expected<std::vector<Sandbox>, CreateError>&)>;

class Forks {
 public:
  // All parts outlive this object.
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

  // Makes children with the sandbox's present files and its spec, labels, volumes and deadline.
  // Each child has its own id, tokens and addresses, and none of the parent's processes. Calls
  // `done` when all run and their records are committed. After an error no child is left.
  // kNotFound. kFailedPrecondition: the sandbox does not live, has too many layers, is being
  // copied, or is ending. Other errors: see Check::Create.
  void Fork(const tenants::Caller& caller, const std::string& id, const WantedFork& wanted,
            const Forked& done);

 private:
  struct UnderWay;
  class ChildBuild;

  tl::expected<std::vector<Sandbox>, CreateError> ChildrenOf(const tenants::Caller& caller,
                                                             const std::string& id, size_t count);
  // Returns the children that an earlier request has made.
  std::vector<Sandbox> Made(const std::vector<std::string>& ids) const;
  // Continues a fork after the copy of the layer succeeded or failed.
  void Go(const UnderWay& fork, const Result<uint64_t>& bytes);
  void Built(const std::shared_ptr<UnderWay>& fork, const std::string& child);

  const Parts parts_;
  const Guard guard_;
};

}  // namespace atl::sandbox
