// Messages from the spawner to the daemon: an answer to each request, and Exited and VolumeLost
// unasked.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "cgroup/limits.h"
#include "cgroup/meters.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/wire/bytes.h"
#include "runtime/wire/device.h"
#include "runtime/wire/layer.h"
#include "runtime/wire/step.h"
#include "runtime/wire/tier.h"

namespace atl::wire {

// Raised with every change of a message.
inline constexpr uint32_t kSpawnerProtocol = 22;
static_assert(cgroup::kLimitFields.size() == 11, "requests have grown: raise kSpawnerProtocol");

// Most sandboxes in one packet. Each may have 582 bytes there; the rest follows in further packets.
inline constexpr size_t kSandboxesPerReply = 128;

struct SandboxRecord {
  std::string id;
  uint32_t slot = 0;
  uint32_t pid = 0;  // pid of process 1 on the host
  bool exited = false;
  bool code_known = true;  // false: it ended under an earlier spawner
  // form of waitpid(2); WIFSTOPPED: it was killed because it was stopped
  int wait_status = 0;
  bool oom_killed = false;
  std::vector<LayerId> layers;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.id, self.slot, self.pid, self.exited, self.code_known, self.wait_status);
    io(self.oom_killed);
    io.List(self.layers, kMaxLayers);
  }
};

// The counters of a sandbox at its end, read when its last process is gone and its group is not.
struct EndReading {
  bool read = false;     // false: it had no group any more, or an older spawner ended it
  int64_t ended_ms = 0;  // Unix time
  // `memory_bytes` is that of the moment before the spawner killed it; 0: it ended by itself.
  cgroup::Meters meters;
  // bytes of its link, as the sandbox sees them; 0 if the link went first
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  uint64_t disk_bytes = 0;    // charged to its project quota; 0 if the store has none
  int64_t ended_boot_ms = 0;  // the end on the boot clock; 0: an older spawner read it

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.read, self.ended_ms, self.meters, self.bytes_in, self.bytes_out, self.disk_bytes);
    io(self.ended_boot_ms);
  }
};

struct SandboxEnd {
  std::string id;
  EndReading reading;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.id, self.reading);
  }
};
// Most ends in one packet.
inline constexpr size_t kMaxEnds = 256;

// The request succeeded, and there is nothing else to report.
struct Done {
  static constexpr uint8_t kType = 1;
};

struct Failed {
  static constexpr uint8_t kType = 2;
  Code code = Code::kInternal;
  int error_number = 0;
  std::string message;

  static Failed Of(const Error& error) {
    return {error.code(), error.error_number(), error.message()};
  }
  Error error() const { return Error(code, message, error_number); }
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io.Enum(self.code, Code::kInvalidArgument, Code::kInternal);
    io(self.error_number, self.message);
  }
};

// A sandbox's first process has ended. Greetings list the sandbox as exited until it is destroyed.
struct Exited {
  static constexpr uint8_t kType = 3;
  SandboxRecord sandbox;
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.sandbox);
  }
};

// The state of the spawner. Sent in as many packets as its sandboxes need; they differ only in
// those. Of a spawner with another protocol only `protocol` is read.
struct Greeting {
  static constexpr uint8_t kType = 4;
  uint32_t protocol = kSpawnerProtocol;
  uint32_t instance = 0;
  bool cgroup_v2 = false;                     // false: the hybrid backend
  std::vector<std::string> limits_available;  // keys of cgroup::kLimitFields
  std::string cgroup_path;  // group of this instance, where the daemon may read usage
  uint64_t swap_bytes = 0;  // size of the swap area for paused sandboxes; 0: there is none
  std::vector<OfferedDevice> devices;  // those of the operator, such as GPUs
  std::vector<uint32_t> prepared_slots;
  // slots of sandboxes for which the kernel was asked to freeze
  std::vector<uint32_t> frozen_slots;
  std::vector<uint32_t> stray_slots;  // slots that had groups or files but no owner
  // slots of sandboxes whose groups disappeared; these sandboxes are being ended
  std::vector<uint32_t> loose_slots;
  std::vector<SandboxRecord> sandboxes;
  bool more = false;                              // further sandboxes follow in the next packet
  std::vector<std::string> tiers = UsualTiers();  // tiers of slots that this host can prepare

  static std::vector<std::string> UsualTiers() { return {std::string(kNamespaceTier)}; }

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    constexpr size_t kMaxSlots = 8192;
    io(self.protocol, self.instance, self.cgroup_v2);
    io.List(self.limits_available, 64);
    io(self.cgroup_path, self.swap_bytes);
    io.List(self.devices, kMaxDevices);
    io.List(self.prepared_slots, kMaxSlots);
    io.List(self.frozen_slots, kMaxSlots);
    io.List(self.stray_slots, kMaxSlots);
    io.List(self.loose_slots, kMaxSlots);
    io.List(self.sandboxes, kSandboxesPerReply);
    io(self.more);
    io.List(self.tiers, kMaxTiers);
  }
};

struct PreparedSlot {
  static constexpr uint8_t kType = 5;
  StepMicros micros{};
  uint64_t cpu_micros = 0;  // processor time that its preparation took; its sandbox does not owe it
  UniqueFd rtnetlink;       // a NETLINK_ROUTE socket in the slot's network namespace

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.micros, self.cpu_micros, self.rtnetlink);
  }
};

// The first process is running and parked.
struct Built {
  static constexpr uint8_t kType = 6;
  uint32_t pid = 0;
  StepMicros micros{};

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.pid, self.micros);
  }
};

struct Unpacked {
  static constexpr uint8_t kType = 7;
  std::string report;  // the unpacker's report, hostile

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.report);
  }
};

// Disk use of a named volume or of a sandbox.
struct DiskUse {
  static constexpr uint8_t kType = 8;
  uint64_t bytes = 0;    // blocks in use, without file system metadata
  uint64_t entries = 0;  // files, directories, links
  bool complete = true;  // false: counting stopped at a limit

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.bytes, self.entries, self.complete);
  }
};

struct CheckedLayers {
  static constexpr uint8_t kType = 12;
  std::string store;  // id of the store, generated with it; a copy of the store has the same id
  std::vector<LayerId> missing;  // subset of the requested layers

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.store);
    io.List(self.missing, 256);
  }
};

struct Copied {
  static constexpr uint8_t kType = 9;
  std::string report;        // the unpacker's report, hostile
  uint64_t held_micros = 0;  // how long the sandbox was kept paused

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.report, self.held_micros);
  }
};

// The place of a paused sandbox's memory.
struct Reclaimed {
  static constexpr uint8_t kType = 10;
  uint64_t swapped_bytes = 0;
  uint64_t resident_bytes = 0;  // the part that could be in swap but is not

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.swapped_bytes, self.resident_bytes);
  }
};

// The process that serves a bucket of a sandbox has ended, and accesses to it fail with ENOTCONN.
// Sent unasked, and again to each new daemon.
struct VolumeLost {
  static constexpr uint8_t kType = 11;
  std::string id;
  uint32_t index = 0;  // index into the sandbox's volumes

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.id, self.index);
  }
};

// Nothing of the sandbox is left.
struct Destroyed {
  static constexpr uint8_t kType = 13;
  EndReading reading;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.reading);
  }
};

// Sandboxes that are destroyed and whose readings no daemon has settled.
struct Ends {
  static constexpr uint8_t kType = 14;
  std::vector<SandboxEnd> ends;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io.List(self.ends, kMaxEnds);
  }
};

struct SlotDisk {
  uint32_t slot = 0;
  uint64_t bytes = 0;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.slot, self.bytes);
  }
};

// Bytes that are charged to project quotas.
struct Disks {
  static constexpr uint8_t kType = 15;
  std::vector<SlotDisk> disks;
  bool counted = false;       // false: the store has no project quotas, and the rest is empty
  uint64_t volume_bytes = 0;  // all named volumes together

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    constexpr size_t kMaxDisks = 8192;
    io.List(self.disks, kMaxDisks);
    io(self.counted, self.volume_bytes);
  }
};

// The interceptor of a sandbox has been started.
struct Interceptor {
  static constexpr uint8_t kType = 16;
  UniqueFd process;  // its pidfd

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.process);
  }
};

using Answer =
    std::variant<Done, Failed, Exited, Greeting, PreparedSlot, Built, Unpacked, DiskUse, Copied,
                 Reclaimed, VolumeLost, CheckedLayers, Destroyed, Ends, Disks, Interceptor>;

// Makes the answer to a request whose result is a T, or void.
template <typename T>
Answer AnswerOf(Result<T> result) {
  if (!result) return Failed::Of(result.error());
  if constexpr (std::is_void_v<T>) {
    return Done();
  } else {
    return std::move(*result);
  }
}

// The inverse. kInternal: the answer is not the expected one.
template <typename T>
Result<T> ResultOf(Answer answer) {
  using Expected = std::conditional_t<std::is_void_v<T>, Done, T>;
  if (const auto* failed = std::get_if<Failed>(&answer)) return Fail(failed->error());
  auto* expected = std::get_if<Expected>(&answer);
  if (expected == nullptr) return Fail(Code::kInternal, "the spawner answers something else");
  if constexpr (std::is_void_v<T>) {
    return {};
  } else {
    return std::move(*expected);
  }
}

}  // namespace atl::wire
