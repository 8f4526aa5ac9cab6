// Virtual machines: what sandboxes with isolation microvm need of the host.
#include <unistd.h>

#include "runtime/spawner/host/vm_programs.h"
#include "tools/doctor/checks.h"

namespace atl::doctor {

std::vector<Finding> CheckVm(const HostOptions& options) {
  constexpr char kName[] = "microvm";
  spawner::Config config;
  config.vm_dir = options.data_dir + "/vm";
  config.qemu = spawner::kQemu;
  config.virtiofsd = spawner::kVirtiofsd;
  if (::access(config.vm_dir.c_str(), F_OK) != 0) return {};
  std::vector<Finding> findings;
  bool kvm = false;
  for (const spawner::VmLack& lack : spawner::FindVmLacks(config, &kvm)) {
    findings.push_back(Warning(kName, lack.error.message(), lack.remedy));
  }
  if (findings.empty()) findings.push_back(Ok(kName, "virtual machines with KVM"));
  return findings;
}

}  // namespace atl::doctor
