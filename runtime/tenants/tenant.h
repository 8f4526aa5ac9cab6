// A tenant: a team that shares the host with others. Its sandboxes, images, volumes, snapshots,
// pools, templates, networks and names are its own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/tenants/oidc_rule.h"

namespace atl::tenants {

// Limits on what a tenant has at a time, or does in a second. 0: unlimited.
struct Quota {
  uint64_t sandboxes = 0;
  uint64_t cpu_millis = 0;    // sum of the limits of its sandboxes
  uint64_t memory_bytes = 0;  // sum of the limits of its sandboxes
  uint64_t disk_bytes = 0;    // sum of the disk limits of its sandboxes and volumes
  uint64_t gpus = 0;          // devices of its sandboxes; a shared one counts for each of them
  uint64_t volumes = 0;
  uint64_t snapshots = 0;
  uint64_t pools = 0;
  double creates_per_second = 0;
  double requests_per_second = 0;
  uint64_t timeout_seconds = 0;  // longest lifetime of a sandbox, counted from now at each renewal

  bool operator==(const Quota&) const = default;
};

// Limits of the tenant's part of the history. None: the operator's default.
struct HistoryLimits {
  std::optional<int64_t> keep_seconds;  // 0: nothing
  std::optional<uint64_t> max_bytes;

  bool operator==(const HistoryLimits&) const = default;
};

struct Tenant {
  std::string name;        // 1 to 63 of [a-z0-9-]
  std::string name_space;  // upstream's namespace; the name if none is given
  uint32_t weight = 1;     // share of the queue of builds, 1 to 100
  Quota max;
  HistoryLimits history;
  std::vector<std::string> images;          // rules of images/allowed.h; none: all
  std::vector<std::string> egress_ceiling;  // targets that its policies may allow; none: all
  std::vector<std::string> object_stores;   // the operator's stores that it may mount; none: none
  std::vector<std::string> host_paths;      // the host's directories that it may mount; none: none
  bool policy_locked = false;               // its sandboxes keep the policy of their create
  std::map<std::string, std::string> labels;  // added to its usage and metrics
  std::vector<std::string> key_hashes;        // SHA-256 of the keys that its file lists, as hex
  std::vector<OidcRule> oidc;                 // tokens of identity providers that are let in
  bool self_service = false;                  // its developers may make keys of their role or lower

  bool operator==(const Tenant&) const = default;
};

}  // namespace atl::tenants
