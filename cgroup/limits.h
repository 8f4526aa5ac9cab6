// The limits of a sandbox, and their one description: what each is called, how it is written, what
// may be asked for. Requests, configuration, wire, store, diagnostics and tests walk kLimitFields;
// none of them names a limit that it has nothing of its own to do with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace atl::cgroup {

// 0: none was set. What that means is the field's: no limit, or what every slot has (nofile); a
// field that is kRequired is never 0 where it is kept.
struct Limits {
  uint64_t memory_bytes = 0;  // memory.max of the sandbox's commands; execd has a reserve beside it
  uint64_t swap_bytes = 0;    // with memory_bytes: swap allowed on top; 0 then means no swap
  uint64_t pids = 0;
  uint64_t cpu_millis = 0;   // 1000 = one core
  uint64_t io_read_bps = 0;  // on the device that holds the data directory
  uint64_t io_write_bps = 0;
  uint64_t io_read_iops = 0;
  uint64_t io_write_iops = 0;
  uint64_t disk_bytes = 0;  // of the upper; a bound on its inodes follows from it
  uint64_t shm_bytes = 0;   // of /dev/shm; what is in it counts as memory too
  uint64_t nofile = 0;      // RLIMIT_NOFILE, soft and hard; 0: soft 16384, hard what a slot has

  bool operator==(const Limits&) const = default;
  // For encoders: io(value) for each.
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io);
};

enum class LimitKind : uint8_t {
  kBytes,  // "512Mi"
  kCount,  // "512"
  kCpu,    // "1", "0.5", "500m"; in thousandths
};

enum class LimitNeed : uint8_t {
  kOptional,  // a sandbox may be without
  kRequired,  // where the host can keep it, no sandbox is without
};

enum class LimitKeeper : uint8_t {
  kController,  // a cgroup controller, where the host has it (Host::limits)
  kQuota,       // project quotas, where the store has them
  kSpawner,     // the spawner, on every host; beyond its own limits the build is an error
};

struct LimitField {
  uint64_t Limits::*value;
  const char* key;   // in resourceLimits, and in the list of what a host can keep
  const char* name;  // in the store and in configuration; the key, or an item of the key's list
  LimitKind kind;
  LimitKeeper keeper;
  LimitNeed need;
  // Of what may be asked for. Below the smallest nothing useful runs, and an OOM kill or a failed
  // fork in the first millisecond would be the only answer.
  uint64_t smallest;
  uint64_t largest;
  uint64_t usual;    // what a request gets that says nothing, unless the operator says otherwise
  const char* what;  // for people
};

inline constexpr uint64_t kMaxLimitBytes = uint64_t{64} << 40;

// In the order in which people are shown them.
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
      // The kernel's smallest quota of processor time is 1 ms in 100 ms.
      {&L::cpu_millis, "cpu", "cpu", kCpu, kController, kRequired, 10, kCpus, 1000, "cores"},
      {&L::memory_bytes, "memory", "memory", kBytes, kController, kRequired, 6 << 20, kMax,
       512 << 20, "memory"},
      {&L::swap_bytes, "swap", "swap", kBytes, kController, kOptional, 0, kMax, 0, "swap"},
      {&L::pids, "pids", "pids", kCount, kController, kRequired, 8, kPids, 512, "processes"},
      {&L::io_read_bps, "io", "rbps", kBytes, kController, kOptional, 64 << 10, kMax, 0,
       "bytes read a second"},
      {&L::io_write_bps, "io", "wbps", kBytes, kController, kOptional, 64 << 10, kMax, 0,
       "bytes written a second"},
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

// Each to another value, beginning at `first`.
constexpr Limits DistinctLimits(uint64_t first) {
  Limits limits;
  for (const LimitField& field : kLimitFields) limits.*field.value = first++;
  return limits;
}

constexpr Limits UsualLimits() {
  Limits limits;
  for (const LimitField& field : kLimitFields) limits.*field.value = field.usual;
  return limits;
}

// As many entries as values, and no value twice: so none is left out.
static_assert(sizeof(Limits) == kLimitFields.size() * sizeof(uint64_t));
static_assert([] {
  const Limits limits = DistinctLimits(1);
  for (size_t i = 0; i < kLimitFields.size(); ++i) {
    if (limits.*kLimitFields[i].value != i + 1) return false;
  }
  return true;
}());

}  // namespace atl::cgroup
