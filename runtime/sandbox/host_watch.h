// Numbers for the metrics that only the file system and the kernel know: they are read on the pool,
// because a file system may hang. Each scrape shows the last reading and asks for the next.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "cgroup/tree.h"
#include "runtime/base/guard.h"
#include "runtime/base/loop.h"
#include "runtime/sandbox/state/group_counts.h"

namespace atl::sandbox {

struct HostSample {
  uint64_t store_size_bytes = 0;
  uint64_t store_free_bytes = 0;  // without what the file system keeps for root
  uint64_t store_free_inodes = 0;
  uint64_t log_bytes = 0;    // of entrypoints
  uint64_t state_bytes = 0;  // records
};

class HostWatch {
 public:
  struct Places {
    std::string store;
    std::string state;  // with logs/ in it
  };
  using ReadEvents = std::function<cgroup::GroupEvents(uint32_t slot)>;
  // `read_events` is called on the pool. All outlive it.
  HostWatch(Loop& loop, GroupCounts& counts, Places places, ReadEvents read_events);
  HostWatch(const HostWatch&) = delete;
  HostWatch& operator=(const HostWatch&) = delete;

  // Reads once more, unless a reading is in flight.
  void Refresh();
  // Null before the first.
  const HostSample* last() const { return last_ ? &*last_ : nullptr; }

 private:
  Loop& loop_;
  GroupCounts& counts_;
  const Places places_;
  const ReadEvents read_events_;
  bool reading_ = false;
  std::optional<HostSample> last_;
  const Guard guard_;
};

}  // namespace atl::sandbox
