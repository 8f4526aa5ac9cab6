// Samples the metrics that only the file system, the kernel and the spawner know. Reads files on
// the pool, because a file system may hang, and asks the spawner for quotas at most once a minute.
// Each scrape gets the last sample and asks for the next.
//
// Thread rule: on the loop.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "cgroup/meters.h"
#include "runtime/base/clock.h"
#include "runtime/base/guard.h"
#include "runtime/base/loop.h"
#include "runtime/sandbox/state/group_counts.h"

namespace atl::launch {
class SpawnerClient;
}

namespace atl::sandbox {

// Resources of HostSample::pressure.
inline constexpr const char* kPressures[] = {"cpu", "memory", "io"};

struct HostSample {
  uint64_t store_size_bytes = 0;
  uint64_t store_free_bytes = 0;  // excludes blocks reserved for root
  uint64_t store_free_inodes = 0;
  uint64_t log_bytes = 0;    // logs of entrypoints
  uint64_t state_bytes = 0;  // the database of records
  // Share of the last ten seconds in which a process of the host waited for each of kPressures.
  // None: the kernel does not measure pressure.
  std::array<std::optional<double>, std::size(kPressures)> pressure;
  // Connections that the kernel tracks, and how many it can. None: it tracks none here.
  std::optional<uint64_t> conntrack_entries, conntrack_limit;
};

// Bytes that are charged to project quotas.
struct QuotaSample {
  uint64_t upper_bytes = 0;   // uppers of living sandboxes
  uint64_t volume_bytes = 0;  // all named volumes
};

class HostWatch {
 public:
  struct Places {
    std::string store;
    std::string state;  // contains logs/
  };
  using ReadEvents = std::function<Result<cgroup::GroupEvents>(uint32_t slot)>;
  // The pool calls `read_events`. All arguments outlive this object.
  HostWatch(Loop& loop, const Clock& clock, launch::SpawnerClient& spawner, GroupCounts& counts,
            Places places, ReadEvents read_events);
  HostWatch(const HostWatch&) = delete;
  HostWatch& operator=(const HostWatch&) = delete;

  // Takes another sample, unless a reading is in flight.
  void Refresh();
  // Returns the last sample; null before the first.
  const HostSample* last() const { return last_ ? &*last_ : nullptr; }
  // Null before the first answer of the spawner, and if the store has no project quotas.
  const QuotaSample* quotas() const { return quotas_ ? &*quotas_ : nullptr; }

 private:
  void AskForQuotas();

  Loop& loop_;
  const Clock& clock_;
  launch::SpawnerClient& spawner_;
  GroupCounts& counts_;
  const Places places_;
  const ReadEvents read_events_;
  bool reading_ = false;
  std::optional<HostSample> last_;
  std::optional<QuotaSample> quotas_;
  int64_t ask_again_us_ = 0;
  const Guard guard_;
};

}  // namespace atl::sandbox
