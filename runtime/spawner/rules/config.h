// The command line of the spawner, written by root, is its whole configuration. Everything that
// decides how far a sandbox reaches is in here or in constants, never in a plan.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/wire/device.h"
#include "runtime/wire/object_store.h"

namespace atl::spawner {

// Owner of every file of every layer and upper on disk. It is a range of its own, so that no file
// out of an archive or a sandbox ever belongs to a real user of the host. A sandbox sees the files
// through id-mapped mounts as its own 0 to 65535.
inline constexpr uid_t kStoreIdBase = 0x70000000;
inline constexpr uint32_t kIdsPerSandbox = 65536;
inline constexpr uint32_t kMaxInstances = 8;
inline constexpr uint32_t kMaxSlot = 4095;
// Most pseudo-terminals of a sandbox. execd hands out as many (execd/run/terminal.h).
inline constexpr uint32_t kMaxTerminals = 64;
// Most pseudo-terminals of an isolated session. Only its own processes can open them.
inline constexpr uint32_t kMaxSessionTerminals = 4;

// A slot's name in the cgroup tree and among the upper directories, and back; 0: `name` is not a
// slot's.
inline std::string SlotGroup(uint32_t slot) {
  return "s" + std::to_string(slot);
}
uint32_t SlotOf(const std::string& name);

// First host id of a slot's range: disjoint for all slots of all daemons of a host, above every
// range that Debian or systemd hand out, below (uid_t)-1.
constexpr uid_t SandboxIdBase(uint32_t instance, uint32_t slot) {
  return 0x78000000u + (instance * (kMaxSlot + 1) + slot) * kIdsPerSandbox;
}

// Device that the memory of paused sandboxes is swapped to (memory/swap_device.h).
enum class SwapKind : uint8_t { kAuto, kDmCrypt, kZram };
inline constexpr std::string_view kSwapKindNames[] = {"auto", "dm-crypt", "zram"};

// Parses the value of the command line.
Result<SwapKind> ParseSwapKind(std::string_view text);

// Returns the kernel's names of the capabilities of a mask, such as "CAP_CHOWN".
std::vector<std::string> CapabilityNames(uint64_t mask);

// The instructions of a virtual machine run on the processor, by KVM, or in QEMU's emulation.
enum class VmAccel : uint8_t { kAuto, kKvm, kTcg };
inline constexpr std::string_view kVmAccelNames[] = {"auto", "kvm", "tcg"};
// Files of Config::vm_dir.
inline constexpr const char kVmKernel[] = "/kernel";
inline constexpr const char kVmModules[] = "/modules";
inline constexpr const char kQemu[] = "/usr/bin/qemu-system-x86_64";
inline constexpr const char kVirtiofsd[] = "/usr/lib/qemu/virtiofsd";

struct Config {
  std::string data_dir;
  std::string run_dir;
  std::string cgroup;  // delegated by systemd, as a path in the v2 hierarchy; empty: none
  uid_t daemon_uid = 0;
  gid_t daemon_gid = 0;
  std::string program;  // our own path at start: an upgrade puts the new file there
  // Directories that host paths of volumes lie beneath: plain absolute paths, none by default.
  std::vector<std::string> host_paths;
  std::vector<wire::Device> devices;             // devices that sandboxes may get; none by default
  std::vector<wire::ObjectStore> object_stores;  // stores of buckets for volumes; none by default
  std::string execd;  // paths of the programs to run; beside our own by default
  std::string unpack;
  std::string objects;
  std::string intercept;
  std::string guard;
  std::string runsc;  // gVisor's program, absolute; empty: this host has no gVisor
  // The directory of `atoll vm prepare`, with kernel and modules; empty: no virtual machines.
  std::string vm_dir;
  VmAccel vm_accel = VmAccel::kAuto;
  bool vm_emulation = false;  // kAuto may emulate
  std::string vm_guard;
  std::string vm_init;  // the guest's process 1
  std::string qemu;     // it and the next: in /usr
  std::string virtiofsd;
  int ready_fd = -1;        // gets one byte once requests are answered
  bool respawn = false;     // start a successor, because no systemd starts the spawner again
  bool successor = false;   // this process succeeds one that died: serve only if nobody else does
  bool trial = false;       // only find out whether this program could serve
  uint64_t swap_bytes = 0;  // size of the swap area for paused sandboxes; 0: none
  SwapKind swap_kind = SwapKind::kAuto;
  uint64_t capabilities = 0;  // bit mask of the capabilities in sandboxes
  // Our own flags, to start the next program at the same path: all but --ready-fd, --successor and
  // --trial, which are for one start only.
  std::vector<std::string> arguments;
};

// Flags: --data-dir D --run-dir R --user NAME [--execd P] [--unpack P] [--objects P] [--guard P]
//        [--runsc P] [--ready-fd N] [--vm-dir D] [--vm-accel auto|kvm|tcg] [--vm-emulation yes]
//        [--capabilities cap_chown,…] [--host-path /DIR]… [--object-store LINE]… [--device LINE]…
//        [--cgroup /PATH]
//        [--respawn yes] [--swap-size BYTES] [--swap-kind auto|dm-crypt|zram] [--successor yes]
//        [--trial yes] [--log-format text|json], which is in force at once
// An error of this is the exit status 2, one of a check at the start 1; 3 is "another one serves".
Result<Config> ParseCommandLine(int argc, char** argv);

}  // namespace atl::spawner
