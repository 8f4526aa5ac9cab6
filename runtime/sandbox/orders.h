// The entry point of creates. Decides whether a sandbox is built cold, claimed from a pool, or
// claimed from a template.
//
// Thread rule: on the loop.
#pragma once

#include <memory>

#include "runtime/base/result.h"
#include "runtime/sandbox/create/check.h"
#include "runtime/sandbox/create/creates.h"
#include "runtime/sandbox/state/attempts.h"
#include "runtime/sandbox/state/host_budget.h"
#include "runtime/sandbox/stock/templates.h"
#include "runtime/sandbox/stock/warm_pools.h"
#include "runtime/tenants/caller.h"
#include "runtime/tenants/tenant_table.h"

namespace atl::sandbox {

class Orders {
 public:
  // All parts outlive this object.
  struct Parts {
    const tenants::TenantTable& tenants;
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

  // Calls `done` once, possibly before it returns. Success: the sandbox runs and its record is
  // committed. If its image is still being imported, `done` gets a Pending sandbox, which becomes
  // Running or Failed later. After an error nothing is left of the sandbox.
  //
  // kInvalidArgument: the spec. kNotFound: the image. kAlreadyExists: the idempotency key.
  // kResourceExhausted: try again later. kUnavailable: the spawner is gone, or the daemon is
  // stopping. kInternal: the build failed. Further errors: Volumes::Acquire for volumes,
  // Snapshots::Usable for a snapshot, WarmPools::CheckRoom for a pool, Templates::Usable for a
  // template. A claim from a template may wait until a member is ready.
  void Create(const tenants::Caller& caller, const Wanted& wanted, const Created& done);

 private:
  using SharedAttempt = std::shared_ptr<Attempt>;
  void Begin(const tenants::Caller& caller, const Wanted& wanted, const Created& done);
  void Build(const tenants::Caller& caller, const Wanted& wanted, const SharedAttempt& attempt);
  void BuildOfPool(const tenants::Caller& caller, const Wanted& wanted,
                   const SharedAttempt& attempt);
  void Claim(const tenants::Caller& caller, const Wanted& wanted, const SharedAttempt& attempt);

  const Parts parts_;
};

}  // namespace atl::sandbox
