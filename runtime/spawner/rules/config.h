// What the spawner is told by whoever starts it, which is root: its command line is its
// configuration. Everything that decides how far a sandbox reaches is in here or in constants,
// never in a plan.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/wire/object_store.h"

namespace atl::spawner {

// Owner of every file of every layer and upper on disk: a range of its own, so that no file that
// came out of an archive or a sandbox ever belongs to a real user of the host. A sandbox sees them
// through id-mapped mounts as its own 0 to 65535.
inline constexpr uid_t kStoreIdBase = 0x70000000;
inline constexpr uint32_t kIdsPerSandbox = 65536;
inline constexpr uint32_t kMaxInstances = 8;
inline constexpr uint32_t kMaxSlot = 4095;
// Pseudo-terminals of a sandbox. execd hands out as many (execd/run/terminal.h).
inline constexpr uint32_t kMaxTerminals = 64;
// Of an isolated session, which only what runs in it can open.
inline constexpr uint32_t kMaxSessionTerminals = 4;

// A slot's name in the cgroup tree and among the upper directories, and back; 0: it is no such
// name.
inline std::string SlotGroup(uint32_t slot) {
  return "s" + std::to_string(slot);
}
uint32_t SlotOf(const std::string& name);

// First host id of a slot's range: disjoint for all slots of all daemons of a host, above every
// range that Debian or systemd hand out, below (uid_t)-1.
constexpr uid_t SandboxIdBase(uint32_t instance, uint32_t slot) {
  return 0x78000000u + (instance * (kMaxSlot + 1) + slot) * kIdsPerSandbox;
}

// Where the memory of paused sandboxes goes (memory/swap_device.h).
enum class SwapKind : uint8_t { kAuto, kDmCrypt, kZram };
inline constexpr std::string_view kSwapKindNames[] = {"auto", "dm-crypt", "zram"};

// As the command line has it.
Result<SwapKind> ParseSwapKind(std::string_view text);

struct Config {
  std::string data_dir;
  std::string run_dir;
  std::string cgroup;  // delegated by systemd, as a path in the v2 hierarchy; empty: none
  uid_t daemon_uid = 0;
  gid_t daemon_gid = 0;
  std::string program;  // our own path at start: an upgrade puts the new file there
  // What host paths of volumes lie beneath: plain absolute paths, none by default.
  std::vector<std::string> host_paths;
  std::vector<wire::ObjectStore> object_stores;  // whose buckets may be volumes; none by default
  std::string execd;  // path of the programs to run; beside our own by default
  std::string unpack;
  std::string objects;
  int ready_fd = -1;        // one byte is written here once requests are answered
  bool respawn = false;     // no systemd starts it again, should it die: it has a successor
  bool successor = false;   // of one that died: only if that one's place is still to be taken
  bool trial = false;       // only find out whether it could serve
  uint64_t swap_bytes = 0;  // of the swap area for paused sandboxes; 0: none
  SwapKind swap_kind = SwapKind::kAuto;
  uint64_t capabilities = 0;  // of processes in sandboxes, as a bit mask
  // What the next program at the same path is to be told: our own flags, without those of one start
  // only: --ready-fd, --successor, --trial.
  std::vector<std::string> arguments;
};

// Flags: --data-dir D --run-dir R --user NAME [--execd P] [--unpack P] [--objects P] [--ready-fd N]
//        [--capabilities cap_chown,…] [--host-path /DIR]… [--object-store LINE]… [--cgroup /PATH]
//        [--respawn yes] [--swap-size BYTES] [--swap-kind auto|dm-crypt|zram] [--successor yes]
//        [--trial yes] [--log-format text|json], which is in force at once
// An error of this is the exit status 2, one of a check at the start 1; 3 is "another one serves".
Result<Config> ParseCommandLine(int argc, char** argv);

}  // namespace atl::spawner
