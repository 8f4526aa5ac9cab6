// The plan: all that the spawner needs to build one sandbox. Data only; what only the spawner may
// decide (capabilities, seccomp, user namespace, id range, where host paths may lie) is not in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/wire/bytes.h"
#include "runtime/wire/volume.h"

namespace atl::wire {

// 0 means "no limit of its own" in every field.
struct Limits {
  uint64_t memory_bytes = 0;  // memory.max of the sandbox's commands; execd has a reserve beside it
  uint64_t swap_bytes = 0;    // with memory_bytes: swap allowed on top; 0 then means no swap
  uint32_t pids = 0;
  uint32_t cpu_millis = 0;   // 1000 = one core
  uint64_t io_read_bps = 0;  // on the device that holds the data directory
  uint64_t io_write_bps = 0;
  uint32_t io_read_iops = 0;
  uint32_t io_write_iops = 0;
  uint64_t disk_bytes = 0;  // of the upper; a bound on its inodes follows from it
};

// Layers are numbered directories in the store.
using LayerId = uint32_t;
// overlayfs takes 500 lowers, the option string of mount(2) one page.
inline constexpr size_t kMaxLayers = 128;

struct Plan {
  std::string id;               // ValidSandboxId
  uint32_t slot = 0;            // a prepared slot: network namespace, id range, cgroup
  std::vector<LayerId> layers;  // topmost first
  bool readonly_root = false;
  std::string hostname;     // at most 64 bytes of [a-z0-9-]
  std::string hosts;        // content of /etc/hosts, at most kMaxEtcFile
  std::string resolv_conf;  // content of /etc/resolv.conf, at most kMaxEtcFile
  uint64_t shm_bytes = 64 << 20;
  Limits limits;
  std::vector<Volume> volumes;  // at most kMaxVolumes
};
inline constexpr size_t kMaxEtcFile = 8192;

void Encode(Writer& writer, const Limits& limits);
Limits DecodeLimits(Reader& reader);
std::string EncodePlan(const Plan& plan);
// Checks form only; the spawner decides about content.
Result<Plan> DecodePlan(std::string_view bytes);

}  // namespace atl::wire
