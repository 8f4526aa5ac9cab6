// The programs and files of virtual machines, checked and prepared when the spawner starts.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/rules/config.h"

namespace atl::spawner {

struct VmPrograms {
  UniqueFd guard;         // a sealed memfd, as execd's
  bool kvm = false;       // else its instructions are emulated
  std::string initramfs;  // a path: the machine's init and execd of this release, and the modules
};

// A thing that the host lacks for virtual machines.
struct VmLack {
  Error error;         // names it
  std::string remedy;  // how to get it
};
// Returns all of them. Looks at the programs, the files of Config::vm_dir and, unless Config allows
// to do without, at KVM, which `kvm` tells.
std::vector<VmLack> FindVmLacks(const Config& config, bool* kvm);

// Checks every program and file of the tier, and writes the initramfs into the run directory, so
// that an upgrade brings its own init and execd along. An error names the first thing that is
// missing and how to get it. Does not open the guard. Config::vm_dir is not empty.
Result<VmPrograms> OpenVmPrograms(const Config& config);

}  // namespace atl::spawner
