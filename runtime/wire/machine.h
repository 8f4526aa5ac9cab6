// The virtual machine that a guard is to start, as the build of its sandbox describes it. The
// spawner writes it before it opens the gate, into kMachineFile.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/wire/vm.h"

namespace atl::wire {

// The guard's descriptors beside those of execd (start.h).
inline constexpr int kMachineTunFd = 6;  // /dev/net/tun, opened in the slot's network namespace
// A listening Unix stream socket. To each connection the guard sends kSynced once everything that
// was dirty in the guest is on the host; it closes those for which that cannot be done.
inline constexpr int kMachineSyncFd = 7;
inline constexpr char kSynced = '+';

// Paths in the slot's tree. The monitor and the file servers have kMachineRoot as their root: there
// are the programs of the host, the kernel and the directories that are shared.
inline constexpr const char kMachineFile[] = "/guard/machine";
inline constexpr const char kParkedFile[] = "/guard/parked";
inline constexpr const char kMachineRoot[] = "/guard/host";
// The rest is beneath kMachineRoot.
inline constexpr const char kMachineKernel[] = "/vm/kernel";
inline constexpr const char kMachineInitrd[] = "/vm/initrd";
// The file servers serve these two from the boot on. What a build mounts in them appears to the
// guest, but not what it would mount on them.
inline constexpr const char kMachineSharedRoot[] = "/share/root";        // two children
inline constexpr const char kMachineSharedVolumes[] = "/share/volumes";  // one for each volume
inline constexpr const char kRootTag[] = "root";
inline constexpr const char kRootDirectory[] = "tree";
inline constexpr const char kSessionsDirectory[] = "sessions";
inline constexpr const char kVolumesTag[] = "volumes";

// All that must be known before a machine boots. It is in kParkedFile if the guard is to boot the
// machine before the gate opens.
struct Hardware {
  uint64_t memory_bytes = 0;
  uint32_t processors = 1;
  bool kvm = false;       // else its processors are emulated
  std::string qemu;       // absolute, beneath kMachineRoot
  std::string virtiofsd;  // so is this

  bool operator==(const Hardware&) const = default;
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.memory_bytes, self.processors, self.kvm, self.qemu, self.virtiofsd);
  }
};

struct Machine {
  Hardware hardware;
  vm::Go go;  // all but the network, which the guard finds in the slot

  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.hardware, self.go);
  }
};

}  // namespace atl::wire
