// The limits of a sandbox, and the one table that describes them: name, syntax and bounds.
// Requests, configuration, wire, store, diagnostics and tests iterate over kLimitFields. Only code
// that treats a limit specially refers to it by name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace atl::cgroup {

// The limits of one sandbox. 0 means not set: no limit, or the default of every slot (nofile). A
// stored field that is kRequired is never 0.
struct Limits {
  uint64_t memory_bytes = 0;  // memory.max of the sandbox's commands; execd's reserve comes on top
  // swap on top of memory_bytes; 0 together with a memory limit means no swap
  uint64_t swap_bytes = 0;
  uint64_t pids = 0;
  uint64_t cpu_millis = 0;   // 1000 = one CPU
  uint64_t io_read_bps = 0;  // device of the data directory
  uint64_t io_write_bps = 0;
  uint64_t io_read_iops = 0;
  uint64_t io_write_iops = 0;
  uint64_t disk_bytes = 0;  // size of the upper directory; the limit of inodes is derived from it
  uint64_t shm_bytes = 0;   // size of /dev/shm; its content also counts as memory
  uint64_t nofile = 0;      // RLIMIT_NOFILE, soft and hard; 0: soft 16384, hard that of the slot

  bool operator==(const Limits&) const = default;
  // Visitor for encoders: calls io(value) for each field.
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io);
};

enum class LimitKind : uint8_t {
  kBytes,  // "512Mi"
  kCount,  // "512"
  kCpu,    // "1", "0.5", "500m"; stored in thousandths
};

enum class LimitNeed : uint8_t {
  kOptional,  // a sandbox may have no such limit
  kRequired,  // every sandbox has one if the host can enforce it
};

enum class LimitKeeper : uint8_t {
  kController,  // a cgroup controller, if the host has it (Host::limits)
  kQuota,       // project quotas, if the store has them
  kSpawner,     // the spawner, on every host; a value above its own limits fails the build
};

struct LimitField {
  uint64_t Limits::*value;
  const char* key;  // name in resourceLimits, and in the list of limits that a host can enforce
  // name in the store and the configuration: the key, or an item of the key's list
  const char* name;
  LimitKind kind;
  LimitKeeper keeper;
  LimitNeed need;
  // Bounds of what a request may ask for. Below `smallest` the sandbox would be killed (memory) or
  // could not fork (pids) before it runs anything useful.
  uint64_t smallest;
  uint64_t largest;
  // Value for a request without this limit, unless the operator sets another default.
  uint64_t default_value;
  const char* what;  // description for users
};

inline constexpr uint64_t kMaxLimitBytes = uint64_t{64} << 40;

// All limits, in the order in which users see them.
inline constexpr auto kLimitFields = [] {
  using L = Limits;
  using enum LimitKind;
  using enum LimitKeeper;
  using enum LimitNeed;
  constexpr uint64_t kMax = kMaxLimitBytes;
  constexpr uint64_t kCpus = 1024 * 1000;
  constexpr uint64_t kPids = 4194304;  // PID_MAX_LIMIT
  constexpr uint64_t kUsualDisk = uint64_t{10} << 30;
  return std::to_array<LimitField>({
      // The kernel's smallest CPU quota is 1 ms in 100 ms.
      {&L::cpu_millis, "cpu", "cpu", kCpu, kController, kRequired, 10, kCpus, 1000, "cores"},
      {&L::memory_bytes, "memory", "memory", kBytes, kController, kRequired, 6 << 20, kMax,
       512 << 20, "memory"},
      {&L::swap_bytes, "swap", "swap", kBytes, kController, kOptional, 0, kMax, 0, "swap"},
      {&L::pids, "pids", "pids", kCount, kController, kRequired, 8, kPids, 512, "processes"},
      {&L::io_read_bps, "io", "rbps", kBytes, kController, kOptional, 64 << 10, kMax, 0,
       "bytes read per second"},
      {&L::io_write_bps, "io", "wbps", kBytes, kController, kOptional, 64 << 10, kMax, 0,
       "bytes written per second"},
      {&L::io_read_iops, "io", "riops", kCount, kController, kOptional, 1, UINT32_MAX, 0,
       "reads a second"},
      {&L::io_write_iops, "io", "wiops", kCount, kController, kOptional, 1, UINT32_MAX, 0,
       "writes a second"},
      {&L::disk_bytes, "disk", "disk", kBytes, kQuota, kOptional, 1 << 20, kMax, kUsualDisk,
       "disk"},
      {&L::nofile, "nofile", "nofile", kCount, kSpawner, kOptional, 256, 1 << 20, 0,
       "open files of each process"},
      {&L::shm_bytes, "shm", "shm", kBytes, kSpawner, kRequired, 4 << 10, kMax, 64 << 20,
       "/dev/shm"},
  });
}();

template <typename Self, typename Io>
void Limits::Fields(Self& self, Io& io) {
  for (const LimitField& field : kLimitFields) io(self.*field.value);
}

// Returns limits with a different value in each field, ascending from `first`.
constexpr Limits DistinctLimits(uint64_t first) {
  Limits limits;
  for (const LimitField& field : kLimitFields) limits.*field.value = first++;
  return limits;
}

constexpr Limits DefaultLimits() {
  Limits limits;
  for (const LimitField& field : kLimitFields) limits.*field.value = field.default_value;
  return limits;
}

// There are as many entries as values and no value occurs twice, so none is missing.
static_assert(sizeof(Limits) == kLimitFields.size() * sizeof(uint64_t));
static_assert([] {
  const Limits limits = DistinctLimits(1);
  for (size_t i = 0; i < kLimitFields.size(); ++i) {
    if (limits.*kLimitFields[i].value != i + 1) return false;
  }
  return true;
}());

}  // namespace atl::cgroup
