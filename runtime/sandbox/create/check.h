// Checks a request for a sandbox, and returns the sandbox to be made. Checks have no side effects.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cgroup/limits.h"
#include "cgroup/limits_text.h"
#include "images/image_store.h"
#include "images/puller.h"
#include "netpolicy/network.h"
#include "runtime/base/clock.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/create/gpus.h"
#include "runtime/sandbox/create/isolation.h"
#include "runtime/sandbox/create/pending_imports.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/snapshots/snapshots.h"
#include "runtime/sandbox/state/attempt.h"
#include "runtime/sandbox/state/host_budget.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/sandbox/state/terms.h"
#include "runtime/sandbox/store/pool_store.h"
#include "runtime/sandbox/store/template_store.h"
#include "runtime/sandbox/volumes/object_volumes.h"
#include "runtime/tenants/caller.h"
#include "runtime/tenants/tenant_table.h"
#include "runtime/wire/reply.h"

namespace atl::sandbox {

// A checked sandbox. Nothing has been acquired for it.
struct Checked {
  Sandbox sandbox;
  std::string awaited_image = {};  // ImageKey of the image to wait for; empty: none
  std::string names_of = {};       // tenant whose name the image's is
  std::string image_owner = {};    // owner of the image that the sandbox has
  std::shared_ptr<const tenants::Narrowing> narrowing = {};  // the key's; null: none
};

class Check {
 public:
  struct Settings {
    cgroup::Limits defaults = cgroup::DefaultLimits();
    cgroup::Enforceable limits_available = {};
    std::string host_arch = "amd64";
    std::vector<std::string> allowed_images = {};  // rules of images/allowed.h; none: all
    bool access_tokens = true;  // false: new sandboxes get no token, and their execd requires none
    std::optional<int64_t> max_timeout_seconds = {};  // the maximum that a create may ask for
    IdlePolicy idle = {};                             // policy of creates that do not name one
    bool pause_reclaims = false;                      // default: a pause moves memory to swap
    uint64_t swap_bytes = 0;  // size of the spawner's swap area for paused sandboxes; 0: none
    Isolation::Policy isolation = {};
    std::vector<std::string> tiers = wire::Greeting::UsualTiers();  // those of the spawner
    std::vector<wire::OfferedDevice> devices = {};                  // those of the spawner
    bool share_devices = false;  // several sandboxes may have one GPU
  };
  // All parts outlive this object.
  struct Parts {
    const Clock& clock;
    const netpolicy::Network& network;
    const images::ImageStore& images;
    const images::Puller& puller;
    const PendingImports& imports;
    const ObjectVolumes& objects;
    const Snapshots& snapshots;
    const Registry& registry;
    const Room& room;
    const TermsTable& terms;
    const tenants::TenantTable& tenants;
  };
  Check(const Parts& parts, Settings settings)
      : parts_(parts),
        settings_(std::move(settings)),
        isolation_(settings_.isolation, settings_.tiers),
        gpus_(parts.registry, settings_.share_devices, settings_.devices) {}
  Check(const Check&) = delete;
  Check& operator=(const Check&) = delete;

  // Changes the default limits of later creates.
  void SetDefaultLimits(const cgroup::Limits& defaults) { settings_.defaults = defaults; }

  // Checks a create that is built for its client. kInvalidArgument: the spec. kNotFound: the image.
  // kPermissionDenied: the operator does not allow it, or the terms of the tenant do not.
  // kAlreadyExists: the name. QuotaError. kResourceExhausted: try again later. CreateError tells
  // whether a volume or the snapshot is the cause.
  tl::expected<Checked, CreateError> Create(const tenants::Caller& caller,
                                            const Wanted& wanted) const;
  // Checks the image of a create by the facts known before it is used. `snapshot` null: no
  // snapshot.
  Status AllowedImage(const tenants::Caller& caller, const std::string& image,
                      const Snapshot* snapshot) const;
  // Checks whether the caller's tenant and key may have `members` sandboxes of the image and limits
  // at a time, built ahead. kPermissionDenied, QuotaError.
  Status Ahead(const tenants::Caller& caller, const std::string& image,
               const std::map<std::string, std::string>& resource_limits, uint64_t members) const;
  // Like Room::CheckStock, for another member of the tenant's pool or template. A tenant is not
  // told what the sandboxes of others add up to.
  Status CheckStock(const std::string& tenant, const Spec& member) const;
  // Checks whether a member of a template fits into the quota of its tenant, for which it counts
  // from its build on. QuotaError.
  Status CheckMemberQuota(const std::string& tenant, const Sandbox& member) const;
  // Member returns a template's member as it would be built now. Claimed returns the member as the
  // sandbox of the create that claims it. Member refuses an image that the tenant may not use any
  // more.
  Result<Checked> Member(const TemplateRecord& record) const;
  Result<Sandbox> Claimed(const tenants::Caller& caller, const Wanted& wanted,
                          Sandbox member) const;
  // kInvalidArgument: too little memory for its tier.
  static Status CheckMemory(const Spec& spec);
  // Reads the limits of a request, with the operator's defaults.
  Result<cgroup::Limits> LimitsOf(const std::map<std::string, std::string>& asked) const;
  // Returns a pool's member as it would be built now, without an id.
  Result<Sandbox> PoolMember(const PoolRecord& pool) const;
  // Returns children of a sandbox, still without the layer of the fork. kFailedPrecondition: the
  // parent does not live, or has too many layers. Other errors: see Create.
  tl::expected<std::vector<Sandbox>, CreateError> Children(const tenants::Caller& caller,
                                                           const Sandbox& parent,
                                                           size_t count) const;

  // Gives `sandbox` the image that it waited for. Errors: see Create.
  Status Image(Sandbox& sandbox, images::Image image) const;
  // The operator, or the terms of its tenant, do not allow the sandbox's image or tier any more, or
  // the tier is not available.
  tl::expected<void, CreateError> StillAllowed(const Sandbox& sandbox) const;

  Isolation& isolation() { return isolation_; }
  const Isolation& isolation() const { return isolation_; }
  Gpus& gpus() { return gpus_; }
  const Gpus& gpus() const { return gpus_; }

  uint64_t swap_bytes() const { return settings_.swap_bytes; }

 private:
  Status CheckImage(const SharedTerms& terms, const std::string& name,
                    std::string_view digest) const;
  // `owner`: the tenant that the sandbox belongs to; the caller gives the name of the image.
  Result<Checked> Whole(const tenants::Caller& caller, const std::string& owner,
                        const Wanted& wanted, const Snapshot* snapshot) const;
  // `asked`: see Isolation::Choose.
  Status SetTier(const std::string& asked, Spec& spec) const;
  // See Room::Check. A tenant is not told what the sandboxes of others add up to.
  Status CheckRoom(const Sandbox& asked, const SharedTerms& terms, size_t count) const;
  // Sets and checks what differs between sandboxes of one kind: deadline, name, policy and idle
  // policy. Checks whether the host has room for the sandbox, and whether the terms of its tenant
  // and of the caller's key allow it.
  Status SetTerms(const tenants::Caller& caller, const Wanted& wanted, Sandbox& sandbox) const;
  // Completes the idle policy. kInvalidArgument: the request wants pauses, and its tier has none.
  Status Idle(Spec& spec) const;
  // kInvalidArgument: the request wants paused memory in swap, and this host has no swap area.
  Status Reclaim(Spec& spec) const;
  Status UseSnapshot(Sandbox& sandbox, const Snapshot& snapshot) const;
  // Returns the ImageKey to wait for if the missing image, of this normalised name, is being
  // imported or may be pulled; else the reason why it is missing.
  Result<std::string> AwaitedImage(const tenants::Caller& caller, const std::string& name,
                                   const Error& missing) const;

  Result<std::vector<Sandbox>> ChildrenOf(const tenants::Caller& caller, const Sandbox& parent,
                                          size_t count) const;

  const Parts parts_;
  Settings settings_;
  Isolation isolation_;
  Gpus gpus_;
};

}  // namespace atl::sandbox
