// The front door of creates: what a client asks for is built, claimed from a pool, or claimed from
// a template.
//
// Thread rule: on the loop.
#pragma once

#include <memory>

#include "runtime/base/result.h"
#include "runtime/sandbox/create/check.h"
#include "runtime/sandbox/create/creates.h"
#include "runtime/sandbox/record/caller.h"
#include "runtime/sandbox/state/attempts.h"
#include "runtime/sandbox/state/host_budget.h"
#include "runtime/sandbox/stock/templates.h"
#include "runtime/sandbox/stock/warm_pools.h"

namespace atl::sandbox {

class Orders {
 public:
  // All parts outlive it.
  struct Parts {
    Room& room;
    Attempts& attempts;
    const Check& check;
    Creates& creates;
    WarmPools& pools;
    Templates& templates;
  };
  explicit Orders(const Parts& parts) : parts_(parts) {}
  Orders(const Orders&) = delete;
  Orders& operator=(const Orders&) = delete;

  // `done` is called, later or at once, when the sandbox runs and its record is safe, or with why
  // not; then nothing is left of it. If its image is being imported, it is called with a sandbox
  // that is Pending, and becomes Running, or Failed, behind that. kInvalidArgument: the spec;
  // kNotFound: the image; kAlreadyExists: the idempotency key; kResourceExhausted: come again
  // later; kUnavailable: the spawner is gone or we are stopping; kInternal: it could not be built.
  // If it is a volume that cannot be had: see Volumes::Acquire. If it is the snapshot: see
  // Snapshots::Usable. If it names a pool: see WarmPools::CheckRoom. If it names a template: see
  // Templates::Usable; it may have to wait for one to be ready.
  void Create(const Caller& caller, const Wanted& wanted, const Created& done);

 private:
  using SharedAttempt = std::shared_ptr<Attempt>;
  void Build(const Caller& caller, const Wanted& wanted, const SharedAttempt& attempt);
  void BuildOfPool(const Caller& caller, const Wanted& wanted, const SharedAttempt& attempt);
  void Claim(const Caller& caller, const Wanted& wanted, const SharedAttempt& attempt);

  const Parts parts_;
};

}  // namespace atl::sandbox
