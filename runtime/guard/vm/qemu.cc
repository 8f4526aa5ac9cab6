#include "runtime/guard/vm/qemu.h"

namespace atl::guard {
namespace {

std::string CommandLine(const wire::Hardware& hardware, uint64_t tsc_khz) {
  std::string line =
      "console=ttyS0 quiet loglevel=2 panic=-1 reboot=t tsc=reliable no_timer_check "
      "i8042.noaux random.trust_cpu=on";
  if (hardware.kvm) return line;
  // The kernel measures the counter against a timer that emulation delivers late, and hangs in
  // about half of its starts. Faults of processors are not emulated.
  line += " mitigations=off";
  if (tsc_khz != 0) line += " tsc_early_khz=" + std::to_string(tsc_khz);
  return line;
}

}  // namespace

std::vector<std::string> QemuArguments(const wire::Hardware& hardware,
                                       const QemuDescriptors& descriptors, uint64_t tsc_khz) {
  const std::string memory = std::to_string(hardware.memory_bytes >> 10) + "k";
  std::vector<std::string> all = {
      // Debian's kernel finds virtio devices on this machine only through ACPI.
      "-M", "microvm,acpi=on,isa-serial=on,rtc=on,memory-backend=memory",
      // The cache of translated code is within the overhead of the tier.
      "-accel", hardware.kvm ? "kvm" : "tcg,thread=multi,tb-size=128",  //
      "-cpu", hardware.kvm ? "host" : "max",                            //
      "-smp", std::to_string(hardware.processors), "-m", memory,        //
      "-object", "memory-backend-memfd,id=memory,share=on,size=" + memory,
      // Servers of devices in other processes speak only the standard's own version.
      "-global", "virtio-mmio.force-legacy=false",                               //
      "-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none",  //
      "-no-reboot", "-chardev", "stdio,id=console,signal=off",                   //
      "-serial", "chardev:console",                                              //
      "-kernel", wire::kMachineKernel, "-initrd", wire::kMachineInitrd,          //
      "-append", CommandLine(hardware, tsc_khz),                                 //
      "-object", "rng-builtin,id=random", "-device", "virtio-rng-device,rng=random"};
  const auto socket = [&all](const char* id, int fd) {
    all.insert(all.end(),
               {"-chardev", std::string("socket,id=") + id + ",fd=" + std::to_string(fd)});
  };
  const auto share = [&](const char* tag, int fd) {
    socket(tag, fd);
    all.insert(all.end(), {"-device", std::string("vhost-user-fs-device,queue-size=1024,chardev=") +
                                          tag + ",tag=" + tag});
  };
  socket("vsock", descriptors.vsock);
  all.insert(all.end(), {"-device", "vhost-user-vsock-device,chardev=vsock"});
  share(wire::kRootTag, descriptors.root);
  share(wire::kVolumesTag, descriptors.volumes);
  // The guest gives the device the MAC of the sandbox.
  all.insert(all.end(), {"-netdev", "tap,id=net,vhost=off,fd=" + std::to_string(descriptors.tap),
                         "-device", "virtio-net-device,netdev=net"});
  return all;
}

}  // namespace atl::guard
