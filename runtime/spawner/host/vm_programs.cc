#include "runtime/spawner/host/vm_programs.h"

#include <fcntl.h>
#include <linux/kvm.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/cpio.h"
#include "runtime/base/plain_file.h"
#include "runtime/base/sys.h"
#include "runtime/wire/initramfs.h"

namespace atl::spawner {
namespace {

constexpr size_t kMostProgram = 16 << 20;
constexpr size_t kMostModules = 64 << 20;
constexpr char kInitramfs[] = "initramfs";

// Whoever could change one of them would be root of every sandbox of the tier.
Status CheckOfRoot(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return FailSys(path);
  return CheckWriters(path, info, {0});
}

Status CheckProgram(const std::string& path) {
  // A machine's processes see this directory of the host.
  if (!path.starts_with("/usr/")) return Fail(Code::kInvalidArgument, path + " is not in /usr");
  return CheckOfRoot(path);
}

// Opening the device proves little: a KVM without Intel's or AMD's extensions beneath it makes
// machines that run no stock kernel.
Status TryKvm() {
  const UniqueFd kvm(::open("/dev/kvm", O_RDWR | O_CLOEXEC));
  if (!kvm) return FailSys("/dev/kvm");
  const UniqueFd machine(::ioctl(kvm.get(), KVM_CREATE_VM, 0));
  if (!machine) return FailSys("/dev/kvm: KVM_CREATE_VM");
  if (::access("/sys/module/kvm_intel", F_OK) != 0 && ::access("/sys/module/kvm_amd", F_OK) != 0) {
    return Fail(Code::kFailedPrecondition,
                "/dev/kvm: neither kvm_intel nor kvm_amd is loaded, and other ways of KVM run no "
                "kernel of Debian's");
  }
  return {};
}

Result<std::string> Read(const std::string& path, size_t most) {
  ATOLL_ASSIGN(const UniqueFd file, sys::Open(path, O_RDONLY));
  return sys::ReadAll(file.get(), most);
}

// The kernel takes archives behind each other for one.
Result<std::string> InitramfsOf(const Config& config) {
  CpioWriter own;
  ATOLL_ASSIGN(const std::string init, Read(config.vm_init, kMostProgram));
  own.AddFile(wire::vm::kInitPath + 1, 0755, init);
  ATOLL_ASSIGN(const std::string execd, Read(config.execd, kMostProgram));
  own.AddFile(wire::vm::kExecdPath + 1, 0755, execd);
  ATOLL_ASSIGN(const std::string modules, Read(config.vm_dir + kVmModules, kMostModules));
  return modules + own.Finish();
}

}  // namespace

std::vector<VmLack> FindVmLacks(const Config& config, bool* kvm) {
  std::vector<VmLack> lacks;
  const auto check = [&lacks](Status status, const std::string& remedy) {
    if (!status) lacks.push_back({std::move(status).error(), remedy});
  };
  check(CheckProgram(config.qemu), "apt install qemu-system-x86");
  check(CheckProgram(config.virtiofsd), "apt install qemu-system-common");
  for (const char* name : {"", kVmKernel, kVmModules}) {
    check(CheckOfRoot(config.vm_dir + name), "run 'atoll vm prepare' as root");
  }
  *kvm = false;
  if (config.vm_accel == VmAccel::kTcg) return lacks;
  Status usable = TryKvm();
  *kvm = usable.has_value();
  if (config.vm_accel == VmAccel::kKvm || !config.vm_emulation) {
    check(std::move(usable),
          "use a host with KVM, or allow emulation, which is five to twenty times slower "
          "(secure_runtime.vm_allow_emulation)");
  }
  return lacks;
}

Result<VmPrograms> OpenVmPrograms(const Config& config) {
  VmPrograms vm;
  for (const VmLack& lack : FindVmLacks(config, &vm.kvm)) {
    return Fail(Code::kFailedPrecondition,
                "virtual machines: " + lack.error.message() + ": " + lack.remedy);
  }
  ATOLL_ASSIGN(const std::string bytes, InitramfsOf(config));
  const std::string place = config.run_dir + "/spawner";
  ATOLL_ASSIGN(const UniqueFd directory, sys::Open(place, O_RDONLY | O_DIRECTORY));
  ATOLL_TRY(sys::ReplaceFileAt(directory.get(), kInitramfs, bytes, 0444));
  vm.initramfs = place + "/" + kInitramfs;
  return vm;
}

}  // namespace atl::spawner
