// The durable records of pools: a table of its own beside the sandboxes', with commits that survive
// power loss. Only what was asked for is kept: members do not outlive the daemon.
//
// Thread rule: on the loop. A write is one row and an fsync; pools come and go rarely.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/sandbox/store/record_table.h"

namespace atl::sandbox {

// How many sandboxes a pool has, in upstream's words.
struct PoolCapacity {
  uint32_t buffer_min = 0;  // with fewer parked ones than that, they are built …
  uint32_t buffer_max = 0;  // … until there are so many
  uint32_t pool_min = 0;    // of parked and claimed ones together
  uint32_t pool_max = 0;

  bool operator==(const PoolCapacity&) const = default;
};

struct PoolRecord {
  std::string name;
  std::string image;                                   // the normalised name
  std::map<std::string, std::string> resource_limits;  // as asked for
  PoolCapacity capacity;
  int64_t created_at_ms = 0;
};

class PoolStore {
 public:
  // `path`: that of Store, which was opened before.
  static Result<std::unique_ptr<PoolStore>> Open(const std::string& path);

  Result<std::vector<PoolRecord>> Load();
  // Inserts or replaces. On a full disk kResourceExhausted with ENOSPC.
  Status Write(const PoolRecord& record);
  // An unknown name is not an error.
  Status Remove(const std::string& name);

 private:
  explicit PoolStore(RecordTable table) : table_(std::move(table)) {}

  RecordTable table_;
};

}  // namespace atl::sandbox
