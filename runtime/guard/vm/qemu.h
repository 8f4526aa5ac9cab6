// How QEMU is asked for a machine: a microvm with one serial line, memory that the devices' servers
// share, and virtio devices alone.
#pragma once

#include <string>
#include <vector>

#include "runtime/wire/machine.h"

namespace atl::guard {

// Descriptors that QEMU inherits, connected to the servers of its devices.
struct QemuDescriptors {
  int vsock = -1;
  int root = -1;
  int volumes = -1;
  int tap = -1;
};

// Returns the arguments, after the program's name. The console is on the standard streams.
// `tsc_khz`: how fast the host's time stamp counter runs; 0: unknown.
std::vector<std::string> QemuArguments(const wire::Hardware& hardware,
                                       const QemuDescriptors& descriptors, uint64_t tsc_khz);

}  // namespace atl::guard
