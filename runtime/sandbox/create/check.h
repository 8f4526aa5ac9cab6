// Checks a request for a sandbox, and returns the sandbox that is to be. Checks
// have no effect.
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
#include "runtime/sandbox/create/pending_imports.h"
#include "runtime/sandbox/record/caller.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/sandbox/snapshots/snapshots.h"
#include "runtime/sandbox/state/attempt.h"
#include "runtime/sandbox/state/host_budget.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/sandbox/store/pool_store.h"
#include "runtime/sandbox/store/template_store.h"
#include "runtime/sandbox/volumes/object_volumes.h"

namespace atl::sandbox {

// A sandbox of which all is known, and nothing has an effect yet.
struct Checked {
  Sandbox sandbox;
  std::string awaited_image = {};  // its name; empty: the image is there
};

class Check {
 public:
  struct Settings {
    cgroup::Limits defaults = cgroup::DefaultLimits();
    cgroup::Enforceable limits_available = {};
    std::string host_arch = "amd64";
    std::vector<std::string> allowed_images = {};  // rules of images/allowed.h; none: all are
    bool access_tokens = true;  // false: new sandboxes get none, and their execd asks for none
    std::optional<int64_t> max_timeout_seconds = {};  // that a create may ask for
    IdlePolicy idle = {};                             // of sandboxes whose create says nothing
    bool pause_reclaims = false;  // likewise: their memory goes to swap while they are paused
    uint64_t swap_bytes = 0;      // of the spawner's area for that; 0: there is none
  };
  // All parts outlive it.
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
  };
  Check(const Parts& parts, Settings settings) : parts_(parts), settings_(std::move(settings)) {}
  Check(const Check&) = delete;
  Check& operator=(const Check&) = delete;

  // For creates from now on.
  void SetDefaultLimits(const cgroup::Limits& defaults) { settings_.defaults = defaults; }

  // A client's sandbox, built for its create. kInvalidArgument: the spec; kNotFound: the image;
  // kPermissionDenied: the operator does not allow it; kAlreadyExists: the name;
  // kResourceExhausted: come again later. If it is a volume or the snapshot that cannot be had, the
  // error says so.
  tl::expected<Checked, CreateError> Create(const Caller& caller, const Wanted& wanted) const;
  // A member of a template, as it would be built now; and as that create's which claims it.
  Result<Checked> Member(const TemplateRecord& record) const;
  Result<Sandbox> Claimed(const Caller& caller, const Wanted& wanted, Sandbox member) const;
  // A member of a pool, as it would be built now; it has no id.
  Result<Sandbox> PoolMember(const PoolRecord& pool) const;
  // Children of a sandbox, in no layer of their own yet. kFailedPrecondition: it does not live, or
  // has too many layers; else as Create.
  Result<std::vector<Sandbox>> Children(const Sandbox& parent, size_t count) const;

  // Gives `sandbox` the image that it has waited for. As Create.
  Status Image(Sandbox& sandbox, images::Image image) const;
  // Whether the operator allows the image that a sandbox has. kPermissionDenied.
  Status ImageOf(const Sandbox& sandbox) const;

  uint64_t swap_bytes() const { return settings_.swap_bytes; }

 private:
  // Checks the image by what is known before it is used. `snapshot` null: there is none.
  Status AllowedImage(const Spec& spec, const Snapshot* snapshot) const;
  Result<Checked> Whole(const Caller& caller, const Wanted& wanted, const Snapshot* snapshot) const;
  // Sets and checks what differs between sandboxes of one kind: deadline, name, policy and
  // idleness; and whether the host has room for it.
  Status SetTerms(const Wanted& wanted, Sandbox& sandbox) const;
  // kInvalidArgument: its memory is to go to swap, and there is none here.
  Status Reclaim(Spec& spec) const;
  Status UseSnapshot(Sandbox& sandbox, const Snapshot& snapshot) const;
  // The name to wait for, if the image that is missing is being imported or may be pulled; else why
  // it is.
  Result<std::string> AwaitedImage(const std::string& name, const Error& missing) const;

  const Parts parts_;
  Settings settings_;
};

}  // namespace atl::sandbox
