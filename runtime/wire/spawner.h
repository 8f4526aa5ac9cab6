// The daemon and the spawner, over one SOCK_SEQPACKET connection to <run_dir>/spawner.sock: one
// message is one packet, descriptors travel with the packet that names them.
//
//   daemon ── Request{number, …} ──► spawner      in any number, at any time
//   daemon ◄── Reply{number, …} ──── spawner      one for each request, when it is carried out and
//                                                 not always in order
//   daemon ◄── Exited{id, …} ─────── spawner      a sandbox's first process has ended; a hello
//   lists
//                                                 it as such until it is destroyed
//
// Neither side drops a packet because the other one is slow: what does not fit into the socket is
// kept and sent later. A request whose asker has hung up is not carried out, except Destroy, which
// its records repeat anyway.
//
// One daemon at a time: a new connection replaces the old one. The spawner believes nothing in
// here: each field is checked against its own configuration.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/wire/plan.h"

namespace atl::wire {

// Raised with every change of a message.
inline constexpr uint32_t kSpawnerProtocol = 6;
static_assert(cgroup::kLimitFields.size() == 11, "requests have grown: raise kSpawnerProtocol");
// net.core.wmem_default bounds a packet; far below it.
inline constexpr size_t kMaxSpawnerMessage = 96 << 10;
// Replies may be larger: a list of layers.
inline constexpr size_t kMaxSpawnerReply = 1 << 20;
// So many sandboxes are listed in one packet, which may have 582 bytes of each; the rest follows.
inline constexpr size_t kSandboxesPerReply = 128;

enum class RequestType : uint8_t {
  kHello = 1,  // → HelloReply, in as many packets as it takes. Asked again later it compares
               // what the spawner holds with what the kernel has, and mends that. One of whatever
               // protocol is read, as the reply tells ours
  kPrepareSlot = 2,   // slot, Limits, fds {control, listener} → fd: a NETLINK_ROUTE socket inside
                      // the slot's network namespace
  kDropSlot = 3,      // slot: an unused prepared slot is dismantled
  kBuild = 4,         // Plan → BuildReply
  kFreeze = 5,        // id, flag
  kDestroy = 6,       // id: kill and remove everything → answered when all of it is gone
  kUnpack = 7,        // UnpackRequest, fds → text: the unpacker's report
  kPublishLayer = 8,  // layer
  kRemoveLayer = 9,   // layer
  kListLayers = 10,   // → layers (of published and unpublished ones)
  kStop = 11,         // destroy everything, answer, exit
  kMakeVolume = 12,   // id: the name; limits: disk_bytes. An existing one is an error
  kRemoveVolume = 13,  // id: the name. An absent one is not an error
  kVolumeUse = 14,     // id: the name → volume_use
  kCheckVolume = 15,   // volume: whether a build could open it; makes nothing
  kPing = 16,          // answered at once: the spawner is not stopped, and reads
  kKeepRules = 17,     // fd: the daemon's NETLINK_NETFILTER socket. Kept open when the daemon has
                       // gone, and with it the rules that are the socket's, until the next comes
};

struct Request {
  uint64_t number = 0;
  RequestType type = RequestType::kHello;
  uint32_t slot = 0;      // kPrepareSlot, kDropSlot
  std::string id;         // kFreeze, kDestroy; of a volume its name
  std::string plan;       // kBuild: an encoded Plan
  cgroup::Limits limits;  // kPrepareSlot, kMakeVolume
  bool flag = false;      // kFreeze: true freezes. kUnpack: false splits, true extracts
  LayerId layer = 0;      // kPublishLayer, kRemoveLayer, kUnpack when it extracts
  std::string volume;     // kCheckVolume: an encoded Volume

  std::string Encode() const { return EncodeFields(*this); }

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.number, self.type, self.slot, self.id, self.plan, self.limits, self.flag, self.layer);
    io(self.volume);
  }
};
Result<Request> DecodeRequest(std::string_view bytes);

// What it takes to make a sandbox, in order. The same list names the step in an error and keys the
// latency metric.
enum class Step : uint8_t {
  // A slot, ahead of time: everything that no image and no request decides.
  kCgroup,      // groups, their namespace, limits
  kUpper,       // upper and work directory
  kIds,         // user namespaces
  kClone,       // from clone3 to the first instruction of what becomes execd
  kNamespaces,  // v1 groups, cgroup namespace, sysctls
  kTree,        // the store, /dev, /sys
  kProc,        // /proc
  kMask,        // what is hidden or read-only in it
  kRlimits,
  kSeccomp,
  kUser,  // into the user namespace, ids, capabilities
  kExec,  // from the last step to the end of execve
  // A build: from the plan to an execd that stands in its root.
  kCheck,    // plan against configuration
  kLimits,   // what the plan has different from the slot
  kEnter,    // into the slot's mount and uts namespace
  kEtc,      // hostname, hosts, resolv.conf
  kOverlay,  // the root
  kMounts,   // /proc, /sys and /dev onto it
  kVolumes,
  kCover,  // the slot's tree with the root
  kGate,   // execd is told
  kState,  // record
  kCount,
};
inline constexpr Step kFirstBuildStep = Step::kCheck;
std::string_view StepName(Step step);
using StepMicros = std::array<uint32_t, static_cast<size_t>(Step::kCount)>;

struct SandboxRecord {
  std::string id;
  uint32_t slot = 0;
  uint32_t pid = 0;  // of process 1, as the host sees it
  bool exited = false;
  bool code_known = true;  // false: it ended under a spawner that is gone
  int wait_status = 0;  // as waitpid(2) gives it; WIFSTOPPED: it was killed because it was stopped
  bool oom_killed = false;
  std::vector<LayerId> layers;

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.id, self.slot, self.pid, self.exited, self.code_known, self.wait_status);
    io(self.oom_killed);
    io.List(self.layers, kMaxLayers);
  }
};

struct Reply {
  uint64_t number = 0;
  // Failure: code, errno and message; `step` says where a build failed (kCount: nowhere).
  bool ok = true;
  Code code = Code::kInternal;
  int error_number = 0;
  std::string message;
  Step step = Step::kCount;

  // kHello
  uint32_t protocol = 0;
  uint32_t instance = 0;
  bool cgroup_v2 = false;                     // false: the hybrid backend
  std::vector<std::string> limits_available;  // keys of cgroup::kLimitFields
  std::vector<SandboxRecord> sandboxes;
  std::vector<uint32_t> prepared_slots;
  std::vector<uint32_t> frozen_slots;  // of sandboxes: the kernel has been asked to hold them
  std::vector<uint32_t> stray_slots;   // had groups or files and were nobody's
  bool more = false;                   // `sandboxes` goes on in another reply of that number
  std::string cgroup_path;             // of this instance, where the daemon may read usage
  // kBuild
  uint32_t pid = 0;
  // kPrepareSlot, kBuild: each its own steps, the others are 0
  StepMicros micros{};
  // kUnpack, failure texts aside
  std::string text;
  // kListLayers
  std::vector<LayerId> layers;
  // kVolumeUse
  VolumeUse volume_use;

  std::string Encode() const { return EncodeFields(*this); }

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    constexpr size_t kMaxRecords = 8192;
    io(self.number, self.ok, self.code, self.error_number, self.message, self.step, self.protocol);
    io(self.instance, self.cgroup_v2);
    io.List(self.limits_available, 64);
    io.List(self.sandboxes, kMaxRecords);
    io.List(self.prepared_slots, kMaxRecords);
    io(self.cgroup_path, self.pid, self.micros, self.text);
    io.List(self.layers, 1 << 20);
    io(self.volume_use);
    io.List(self.frozen_slots, kMaxRecords);
    io.List(self.stray_slots, kMaxRecords);
    io(self.more);
  }
};
// Also decodes an event: number 0, one entry in `sandboxes`.
Result<Reply> DecodeReply(std::string_view bytes);

// What atoll-unpack finds open. argv[1] is "split" or "layer".
inline constexpr int kUnpackInputFd = 3;   // the archive or the blob, read-only
inline constexpr int kUnpackOutputFd = 4;  // the directory to fill
inline constexpr int kUnpackReportFd =
    5;  // a pipe: the report, or on failure one line that says why

}  // namespace atl::wire
