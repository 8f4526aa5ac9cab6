// The durable records of pools, in a table of their own. Commits survive power loss. The table
// keeps only the configuration: members do not outlive the daemon.
//
// Thread rule: on the loop. A write is one row and an fsync; pools come and go rarely.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "runtime/sandbox/record/fields.h"
#include "runtime/sandbox/store/record_table.h"

namespace atl::sandbox {

// The sizes of a pool, with upstream's names.
struct PoolCapacity {
  uint32_t buffer_min = 0;  // if fewer members are parked, the pool builds …
  uint32_t buffer_max = 0;  // … until it has this many
  uint32_t pool_min = 0;    // bounds of parked and claimed members together
  uint32_t pool_max = 0;

  bool operator==(const PoolCapacity&) const = default;
};

struct PoolRecord {
  static constexpr char kTable[] = "pools";

  std::string key;                                     // PoolKey
  std::string image;                                   // the normalised name
  std::map<std::string, std::string> resource_limits;  // the request's limits
  PoolCapacity capacity;
  int64_t created_at_ms = 0;
  std::string tenant;  // owner; empty: the host

  static constexpr auto kId = &PoolRecord::key;
};

// Returns the key of a tenant's pool. No name of a pool has a slash.
inline std::string PoolKey(const std::string& tenant, const std::string& name) {
  return tenant.empty() ? name : tenant + "/" + name;
}
// Returns the name that the pool's tenant has given to it.
inline std::string PoolNameOf(const PoolRecord& pool) {
  return pool.tenant.empty() ? pool.key : pool.key.substr(pool.tenant.size() + 1);
}

template <MaybeConst<PoolRecord> R, typename Io>
void VisitFields(R& pool, Io& io) {
  io.Required("image", pool.image);
  io.Required("limits", pool.resource_limits);
  io.Required("buffer_min", pool.capacity.buffer_min);
  io.Required("buffer_max", pool.capacity.buffer_max);
  io.Required("pool_min", pool.capacity.pool_min);
  io.Required("pool_max", pool.capacity.pool_max);
  io.Optional("tenant", pool.tenant);
}

using PoolStore = RecordTable<PoolRecord>;

}  // namespace atl::sandbox
