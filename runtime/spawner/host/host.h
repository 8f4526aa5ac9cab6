// Things that the spawner prepares once, at start, and uses for every slot and sandbox.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cgroup/tree.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host/vm_programs.h"
#include "runtime/spawner/rules/config.h"
#include "runtime/spawner/rules/seccomp.h"
#include "runtime/spawner/store/store.h"

namespace atl::spawner {

struct Host {
  Config config;
  uint32_t instance = 0;
  cgroup::Tree cgroups;
  Store store;
  UniqueFd execd;                // sealed memfd, executable, not readable by sandboxes
  UniqueFd unpack;               // the program file
  UniqueFd guard;                // a sealed memfd, too; invalid without gVisor
  UniqueFd runsc;                // gVisor's program file; invalid if the operator names none
  std::optional<VmPrograms> vm;  // none: this host has no virtual machines
  int host_mounts = -1;          // the host's mount namespace; borrowed
  UniqueFd links;  // sysfs of this network namespace (kernel/link_bytes.h); may be invalid
  BpfProgram filter;
  BpfProgram session_filter;
  std::string
      staging;  // an empty directory: each slot mounts on it in a mount namespace of its own

  // Returns the descriptors that a worker needs to make slots or sessions. Borrowed.
  std::vector<int> Descriptors() const {
    std::vector<int> fds = cgroups.Descriptors();
    fds.insert(fds.end(), {store.root(), store.tree(), execd.get(), unpack.get(), host_mounts});
    if (runsc) fds.insert(fds.end(), {guard.get(), runsc.get()});
    if (vm) fds.insert(fds.end(), {vm->guard.get()});
    return fds;
  }

  uid_t IdBase(uint32_t slot) const { return SandboxIdBase(instance, slot); }
};

}  // namespace atl::spawner
