#include "runtime/spawner/host/vm_programs.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace atl::spawner {
namespace {

Config Complete() {
  Config config;
  // Files of root's, which every host has.
  config.qemu = config.virtiofsd = "/usr/bin/env";
  config.vm_dir = "/usr/bin";
  config.vm_accel = VmAccel::kTcg;
  return config;
}

bool Names(const std::vector<VmLack>& lacks, const std::string& object, const std::string& remedy) {
  return std::any_of(lacks.begin(), lacks.end(), [&](const VmLack& lack) {
    return lack.error.message().starts_with(object) &&
           lack.remedy.find(remedy) != std::string::npos;
  });
}

// Every lack at once, each with its own remedy, so that nobody mends one to learn of the next.
TEST(VmPrograms, NamesEachThingThatIsMissing) {
  Config config = Complete();
  bool kvm = true;
  const std::vector<VmLack> files = FindVmLacks(config, &kvm);
  EXPECT_EQ(files.size(), 2U);
  EXPECT_TRUE(Names(files, "/usr/bin/kernel: No such file", "atoll vm prepare"));
  EXPECT_TRUE(Names(files, "/usr/bin/modules: No such file", "atoll vm prepare"));
  EXPECT_FALSE(kvm);
  config.qemu = "/usr/bin/no-such-qemu";
  config.virtiofsd = "/usr/lib/no-such-virtiofsd";
  const std::vector<VmLack> lacks = FindVmLacks(config, &kvm);
  EXPECT_EQ(lacks.size(), 4U);
  EXPECT_TRUE(Names(lacks, config.qemu, "apt install qemu-system-x86"));
  EXPECT_TRUE(Names(lacks, config.virtiofsd, "apt install qemu-system-common"));
}

TEST(VmPrograms, AProgramOutsideOfUsrIsRefused) {
  Config config = Complete();
  bool kvm = false;
  config.qemu = "/opt/qemu";
  EXPECT_TRUE(Names(FindVmLacks(config, &kvm), "/opt/qemu is not in /usr", "apt"));
}

// Emulation is never a surprise: whoever names neither emulation nor its permission needs KVM.
TEST(VmPrograms, EmulationNeedsPermission) {
  Config config = Complete();
  bool kvm = false;
  config.vm_accel = VmAccel::kAuto;
  const size_t without = FindVmLacks(config, &kvm).size();
  EXPECT_EQ(without, kvm ? 2U : 3U);
  config.vm_emulation = true;
  EXPECT_EQ(FindVmLacks(config, &kvm).size(), 2U);
  config.vm_accel = VmAccel::kKvm;  // and this one is no permission
  EXPECT_EQ(FindVmLacks(config, &kvm).size(), kvm ? 2U : 3U);
}

}  // namespace
}  // namespace atl::spawner
