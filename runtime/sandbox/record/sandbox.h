// One sandbox as the daemon knows it.
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
#include "runtime/sandbox/record/states.h"
#include "runtime/wire/layer.h"
#include "runtime/wire/object_store.h"
#include "runtime/wire/start.h"
#include "runtime/wire/volume.h"

namespace atl::sandbox {

// Entries of a sandbox's metadata: each list shows them for each sandbox.
inline constexpr size_t kMaxMetadata = 256;
// The entry by which people call it. To any client it is metadata like all other, so several may
// have one name: only who says so with this extension gets one that nobody has.
inline constexpr char kName[] = "name";
inline constexpr char kUniqueName[] = "uniqueName";
// Bytes of a request's extensions, for the same reason.
inline constexpr size_t kMaxExtensions = 16 << 10;

// The extension that names the pool which a sandbox is made of.
inline constexpr char kPoolRef[] = "poolRef";

struct Platform {
  std::string os;    // "linux"
  std::string arch;  // "amd64", "arm64"

  bool operator==(const Platform&) const = default;
};

// Of a volume that is a bucket, what its request says of the store.
struct BucketRequest {
  std::string endpoint;                 // as sent, or an operator's name of a store
  std::string credentials_of;           // that store's, by reference; empty: any that fits
  wire::ObjectCredentials credentials;  // the request's own
};

// A volume that a client asks for.
struct VolumeMount {
  wire::Volume volume;  // of a bucket, its source is the bucket alone, until its store is found
  BucketRequest bucket = {};
  bool create_if_missing = true;     // named ones
  bool delete_with_sandbox = false;  // named ones, if this request creates them
  uint64_t disk_bytes = 0;           // likewise: their limit; 0: the operator's default
};

// What of the host is kept for a sandbox, whether or not it uses it; 0: nothing.
struct Reservation {
  uint64_t memory_bytes = 0;
  uint64_t cpu_millis = 0;

  bool operator==(const Reservation&) const = default;
};

inline constexpr int64_t kMaxIdleSeconds = int64_t{365} * 86400;

// What becomes of a sandbox that nobody uses (idle_watch.h).
struct IdlePolicy {
  int64_t after_seconds = 0;  // of idleness; 0: never
  bool ends = false;          // else it is paused, and the next request lets it go on

  bool operator==(const IdlePolicy&) const = default;
};

// What a sandbox is to be: said by the request, checked, and kept as a whole with the sandbox. The
// egress policy in `network` alone is changed later.
struct Spec {
  std::string image;        // checked: the normalised name
  std::string template_id;  // it was started ahead, as that says; empty: as its create says
  std::string snapshot_id;  // it is restored of that, which is of the image above; empty: of none
  std::vector<std::string> entrypoint;            // empty: no program, it runs until it is ended
  std::map<std::string, std::string> env;         // the request's own, not the image's
  std::map<std::string, std::string> extensions;  // as sent; those with a meaning stand below too
  std::optional<Platform> platform;               // none: no constraint
  cgroup::Limits limits;                          // checked: what the request names, and defaults
  Reservation reserved;
  std::vector<wire::Hook> hooks;
  std::vector<wire::Volume> volumes;
  bool readonly_root = false;
  bool unique_name = false;                 // no other had its name when it took it
  std::optional<int64_t> renew_by_seconds;  // each access moves the deadline this far ahead
  std::optional<IdlePolicy> idle;           // checked: with the operator's; none: it may be idle
  std::optional<bool> reclaims;             // its memory, while paused; checked: none: it keeps it
  netpolicy::SlotRequest network;           // checked: with the sandbox's id
};

// What a client asks for; its form has been checked (runtime/api), its content has not.
struct Wanted {
  Spec spec;
  std::map<std::string, std::string> metadata;
  std::map<std::string, std::string> resource_limits;
  std::map<std::string, std::string> resource_requests;
  std::optional<int64_t> timeout_seconds;  // none: lives until deleted
  std::vector<VolumeMount> mounts;         // how to come by spec.volumes, one each
  images::Credentials registry_as;         // who asks for the image, should it be pulled
  bool secure_access = false;              // its ports ask for a token or a signed route
  bool credential_proxy = false;           // it may be given a credential vault
  std::string idempotency_key;             // of the request; empty: none
  std::string fingerprint;                 // of its body; with a key
  std::string request_id;                  // for the log
};

struct Sandbox {
  std::string id;
  // By which the spawner knows it, and what belongs to its processes is called: its socket, its
  // log. Another one with each rollback; empty: its id.
  std::string host_id;
  bool stocked = false;  // it waits for a create of its template, and no client sees it
  std::string tenant;    // whose it is (caller.h); empty: that of a daemon with one key
  int64_t created_at_ms = 0;
  Spec spec;

  // Found or made for it.
  std::string image_digest;
  images::ImageConfig config;  // of the image, or what the snapshot has made of it
  std::vector<wire::LayerId> layers;
  wire::LayerId fork_layer = 0;  // that it was forked with, its siblings too; 0: it was not forked
  std::string access_token;      // what its execd asks for in X-EXECD-ACCESS-TOKEN; empty: nothing
  std::string secure_token;  // what its ports ask for, where no signature is given; empty: nothing
  // Whom it believes in the place of any server; empty: nobody, and it can have no credential
  // vault.
  intercept::Authority authority;

  // Moves.
  std::map<std::string, std::string> metadata;
  std::optional<int64_t> expires_at_ms;  // none: lives until deleted
  State state = State::kAcquiring;
  std::string reason;   // "CONTAINER_RUNNING", …
  std::string message;  // for people; may hold a sandbox's own words
  int64_t transition_at_ms = 0;
  uint32_t slot = 0;             // 0: holds nothing on the host
  uint64_t reclaimed_bytes = 0;  // of its memory in swap, as long as it is paused
};
inline const std::string& HostId(const Sandbox& sandbox) {
  return sandbox.host_id.empty() ? sandbox.id : sandbox.host_id;
}

// Whether one that was built ahead is what the other asks for.
inline bool IsBuiltLike(const Sandbox& ahead, const Sandbox& wanted) {
  return ahead.image_digest == wanted.image_digest && ahead.layers == wanted.layers &&
         ahead.spec.limits == wanted.spec.limits;
}

// As what the idle policy does stands in a record; what somebody asks for has other reasons.
inline constexpr char kIdlePausing[] = "IDLE_PAUSING";
inline constexpr char kIdlePaused[] = "IDLE_PAUSED";
inline constexpr char kIdleResuming[] = "IDLE_RESUMING";
inline bool IsIdleReason(const std::string& reason) {
  return reason == kIdlePausing || reason == kIdlePaused || reason == kIdleResuming;
}

// It stands still, or is about to, and goes on as soon as somebody wants something of it: nobody
// has asked for its pause.
inline bool Wakes(const Sandbox& sandbox) {
  return IsLive(sandbox.state) && sandbox.state != State::kRunning && IsIdleReason(sandbox.reason);
}

}  // namespace atl::sandbox
