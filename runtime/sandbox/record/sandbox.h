// The record of one sandbox.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cgroup/limits.h"
#include "images/image.h"
#include "images/registry/credentials.h"
#include "netpolicy/intercept/authority.h"
#include "netpolicy/network.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/record/states.h"
#include "runtime/wire/layer.h"
#include "runtime/wire/object_store.h"
#include "runtime/wire/start.h"
#include "runtime/wire/tier.h"
#include "runtime/wire/volume.h"

namespace atl::sandbox {

// Limit of metadata entries, because each list shows them for each sandbox.
inline constexpr size_t kMaxMetadata = 256;
// Name of the metadata entry with the sandbox's name. Any client may set it as it sets other
// metadata, so several sandboxes may share a name. The extension kUniqueName makes a create fail if
// the name is taken.
inline constexpr char kName[] = "name";
inline constexpr char kUniqueName[] = "uniqueName";
// Limit of a request's extensions in bytes, because each list shows them.
inline constexpr size_t kMaxExtensions = 16 << 10;

// Name of the extension that selects the pool.
inline constexpr char kPoolRef[] = "poolRef";
// Name of the extension that asks for a tier.
inline constexpr char kIsolation[] = "isolation";

struct Platform {
  std::string os;    // "linux"
  std::string arch;  // "amd64", "arm64"

  bool operator==(const Platform&) const = default;
};

// The part of a bucket volume's request that describes the object store.
struct BucketRequest {
  std::string endpoint;                 // the request's text, or an operator's name for a store
  std::string credentials_of;           // the store with the credentials; empty: any that fits
  wire::ObjectCredentials credentials;  // the credentials in the request
};

// A volume that a client asks for.
struct VolumeMount {
  wire::Volume volume;  // `source` of a bucket is the bucket alone, until its store is found
  BucketRequest bucket = {};
  bool create_if_missing = true;     // named volumes only
  bool delete_with_sandbox = false;  // named volumes that this request creates
  uint64_t disk_bytes = 0;           // limit of a new named volume; 0: the default
};

// The share of the host that is reserved for a sandbox, whether or not it uses it. 0: nothing.
struct Reservation {
  uint64_t memory_bytes = 0;
  uint64_t cpu_millis = 0;

  bool operator==(const Reservation&) const = default;
};

inline constexpr int64_t kMaxIdleSeconds = int64_t{365} * 86400;

// The policy for an idle sandbox (idle_watch.h).
struct IdlePolicy {
  int64_t after_seconds = 0;  // seconds of idleness before it applies; 0: never
  bool ends = false;          // true: ends the sandbox; false: pauses it until the next request

  bool operator==(const IdlePolicy&) const = default;
};

// The specification of a sandbox. The request gives it, Check validates it, and the record keeps
// it. Afterwards only the egress policy in `network` changes.
struct Spec {
  std::string image;                    // checked: the normalised name
  std::string template_id;              // the template that it was started ahead for; empty: none
  std::string snapshot_id;              // the snapshot, of the image above, to restore; empty: none
  std::vector<std::string> entrypoint;  // empty: no program; the sandbox runs until it is ended
  std::map<std::string, std::string> env;  // the request's variables, without the image's
  // The request's extensions, unchanged. An extension with a meaning has a field of its own, too.
  std::map<std::string, std::string> extensions;
  std::optional<Platform> platform;  // none: no constraint
  cgroup::Limits limits;             // checked: the request's limits, completed by the defaults
  Reservation reserved;
  std::vector<wire::Hook> hooks;
  std::vector<wire::Volume> volumes;
  bool readonly_root = false;
  // Checked: the tier, which forks and rollbacks keep (TierOf). Empty: that of namespaces, so that
  // the usual record has no such field.
  std::string isolation;
  bool unique_name = false;                 // its name was not taken when it was created
  std::optional<int64_t> renew_by_seconds;  // an access moves the deadline this far ahead
  std::optional<IdlePolicy> idle;  // checked: includes the operator's policy; none: no idle policy
  std::optional<bool> reclaims;  // whether a pause moves its memory to swap; checked: none means no
  netpolicy::SlotRequest network;  // checked: includes the sandbox's id
};

// Returns the name of a checked sandbox's tier.
inline std::string TierOf(const Spec& spec) {
  return spec.isolation.empty() ? std::string(wire::kNamespaceTier) : spec.isolation;
}
// kUnimplemented, with the tier's name: a sandbox of this tier can neither be paused nor copied.
inline Status CheckStands(const Spec& spec) {
  const std::string tier = TierOf(spec);
  if (wire::CanStandStill(tier)) return {};
  return Fail(Code::kUnimplemented, "sandboxes with isolation " + tier +
                                        " cannot stand still: no pause, no fork, no snapshot, no "
                                        "template");
}

// A client's request for a sandbox. runtime/api has checked its form, but not its content.
struct Wanted {
  Spec spec;
  std::map<std::string, std::string> metadata;
  std::map<std::string, std::string> resource_limits;
  std::map<std::string, std::string> resource_requests;
  std::optional<int64_t> timeout_seconds;  // none: lives until deleted
  std::vector<VolumeMount> mounts;         // how to acquire spec.volumes; one entry each
  images::Credentials registry_as;         // credentials for a pull of the image
  bool secure_access = false;              // its ports require a token or a signed route
  bool credential_proxy = false;           // it may get a credential vault
  std::string isolation;                   // the tier it asks for; empty: the operator's default
  std::string idempotency_key;             // the Idempotency-Key; empty: none
  std::string fingerprint;                 // fingerprint of the request's body, if there is a key
  std::string request_id;                  // names the request in the log
};

// How a sandbox ended. A deletion, or the deadline, replaces the cause in its record.
struct FormerEnd {
  bool failed = false;
  std::string reason;
  std::string message;
  int64_t time_ms = 0;
};

struct Sandbox {
  std::string id;
  // The id by which the spawner knows the sandbox, and by which its socket and its log are named.
  // Each rollback assigns another. Empty: the same as `id`.
  std::string host_id;
  bool stocked = false;  // it waits for a claim of its template; no client sees it
  std::string tenant;    // its owner (caller.h); empty: the tenant of a daemon with one key
  int64_t created_at_ms = 0;
  Spec spec;

  // The daemon found or made these.
  std::vector<std::string> devices;     // its GPUs, by name (create/gpus.h)
  std::vector<std::string> device_env;  // their variables, NAME=VALUE
  std::string image_digest;
  images::ImageConfig config;  // the image's, or the snapshot's version of it
  std::vector<wire::LayerId> layers;
  wire::LayerId fork_layer = 0;  // the layer that it shares with its fork's siblings; 0: not forked
  std::string access_token;  // the token that execd expects in X-EXECD-ACCESS-TOKEN; empty: none
  std::string secure_token;  // required by its ports unless a request is signed; empty: none
  // The certificate authority that the sandbox trusts for any server. Empty: none, and it can have
  // no credential vault.
  intercept::Authority authority;

  // These change while the sandbox lives.
  std::map<std::string, std::string> metadata;
  std::optional<int64_t> expires_at_ms;  // none: lives until deleted
  State state = State::kAcquiring;
  std::string reason;   // "CONTAINER_RUNNING", …
  std::string message;  // text for people; may quote output of the sandbox
  int64_t transition_at_ms = 0;
  uint32_t slot = 0;             // 0: it holds nothing on the host
  uint64_t reclaimed_bytes = 0;  // bytes of its memory in swap while it is paused
  // The last denials of its network, for the history. Empty until what it holds is released.
  std::vector<netpolicy::Denial> denials;
  // Set while a sandbox leaves that had ended before. Not part of the stored record.
  std::optional<FormerEnd> ended;
};
inline const std::string& HostId(const Sandbox& sandbox) {
  return sandbox.host_id.empty() ? sandbox.id : sandbox.host_id;
}

// Returns true if the sandbox that was built ahead has the image of `wanted`, as it is now.
inline bool HasImageOf(const Sandbox& ahead, const Sandbox& wanted) {
  return ahead.image_digest == wanted.image_digest && ahead.layers == wanted.layers;
}
// Returns true if the sandbox that was built ahead is what a build of `wanted` would make.
inline bool IsBuiltLike(const Sandbox& ahead, const Sandbox& wanted) {
  return HasImageOf(ahead, wanted) && ahead.spec.limits == wanted.spec.limits &&
         ahead.spec.isolation == wanted.spec.isolation && ahead.devices == wanted.devices;
}

// The reasons in a record for pauses by the idle policy. Pauses by a client have other reasons.
inline constexpr char kIdlePausing[] = "IDLE_PAUSING";
inline constexpr char kIdlePaused[] = "IDLE_PAUSED";
inline constexpr char kIdleResuming[] = "IDLE_RESUMING";
inline bool IsIdleReason(const std::string& reason) {
  return reason == kIdlePausing || reason == kIdlePaused || reason == kIdleResuming;
}

// Returns true if the idle policy has paused the sandbox, or is pausing or resuming it. The next
// request resumes such a sandbox.
inline bool Wakes(const Sandbox& sandbox) {
  return IsLive(sandbox.state) && sandbox.state != State::kRunning && IsIdleReason(sandbox.reason);
}

}  // namespace atl::sandbox
