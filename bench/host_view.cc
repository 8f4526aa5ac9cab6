#include "bench/host_view.h"

#include <cpuid.h>
#include <fcntl.h>
#include <net/if.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <charconv>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "bench/clock.h"
#include "cgroup/host.h"
#include "netpolicy/address/addresses.h"
#include "runtime/base/sys.h"

namespace atl::bench {
namespace {

constexpr size_t kFileLimit = 1 << 20;
constexpr long kExt4Magic = 0xef53;
constexpr long kXfsMagic = 0x58465342;
constexpr long kBtrfsMagic = 0x9123683e;
constexpr long kTmpfsMagic = 0x01021994;

std::string Text(const std::string& path) {
  auto text = sys::ReadFileAt(AT_FDCWD, path, kFileLimit);
  return text ? *text : "";
}

template <typename T>
T Number(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  T value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// Returns the number of a "Name:   123 kB" line.
double Field(const std::string& text, const std::string& name) {
  const std::string key = name + ":";
  size_t at = text.starts_with(key) ? 0 : text.find("\n" + key);
  if (at == std::string::npos) return 0;
  at = text.find(':', at) + 1;
  return static_cast<double>(Number<uint64_t>(std::string_view(text).substr(at)));
}

double CpuidMicros() {
  constexpr int kTimes = 1000;
  const int64_t start = NowMicros();
  for (int i = 0; i < kTimes; ++i) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    __cpuid(0, a, b, c, d);
  }
  return static_cast<double>(MicrosSince(start)) / kTimes;
}

}  // namespace

Result<std::vector<pid_t>> ProcessesNamed(const std::string& name, const std::string& argument) {
  ATOLL_ASSIGN(const UniqueFd proc, sys::Open("/proc", O_RDONLY | O_DIRECTORY));
  ATOLL_ASSIGN(const std::vector<std::string> entries, sys::ListDir(proc.get()));
  std::vector<pid_t> found;
  for (const std::string& entry : entries) {
    const pid_t pid = Number<pid_t>(entry);
    if (pid <= 0) continue;
    const std::string line = Text("/proc/" + entry + "/cmdline");
    const std::string own = line.substr(0, line.find('\0'));
    if (!own.ends_with(name)) continue;
    if (line.find('\0' + argument + '\0') != std::string::npos) found.push_back(pid);
  }
  return found;
}

Result<double> PssKib(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/smaps_rollup";
  ATOLL_ASSIGN(const std::string text, sys::ReadFileAt(AT_FDCWD, path, kFileLimit));
  return Field(text, "Pss");
}

Result<Memory> ReadMemory() {
  ATOLL_ASSIGN(const std::string text, sys::ReadFileAt(AT_FDCWD, "/proc/meminfo", kFileLimit));
  Memory memory;
  memory.available_kib = Field(text, "MemAvailable");
  for (const char* name : {"SUnreclaim", "KernelStack", "PageTables", "SecPageTables", "Percpu"}) {
    memory.kernel_kib += Field(text, name);
  }
  return memory;
}

Result<std::vector<Place>> FindSandboxes(const std::vector<pid_t>& spawner,
                                         const std::string& data_dir) {
  ATOLL_ASSIGN(const cgroup::Host host, cgroup::DetectHost());
  std::vector<Place> places;
  for (const pid_t parent : spawner) {
    const std::string number = std::to_string(parent);
    std::istringstream children(Text("/proc/" + number + "/task/" + number + "/children"));
    for (pid_t pid = 0; children >> pid;) {
      // "0::/atoll3/s17/execd"
      const std::string groups = Text("/proc/" + std::to_string(pid) + "/cgroup");
      const size_t at = groups.find("0::/");
      const size_t end = groups.find("/execd\n", at);
      if (at == std::string::npos || end == std::string::npos) continue;
      const std::string group = groups.substr(at + 3, end - at - 3);
      const size_t slash = group.rfind("/s");
      const size_t base = group.rfind("atoll", slash);
      if (slash == std::string::npos || base == std::string::npos) continue;
      // A slot in stock has an execd, too, but nothing runs in it.
      if (Text(host.unified + group + "/run/cgroup.events").find("populated 1") ==
          std::string::npos) {
        continue;
      }
      const auto instance = Number<uint32_t>(group.substr(base + 5, slash - base - 5));
      const auto slot = Number<uint32_t>(group.substr(slash + 2));
      places.push_back({pid, host.unified + group,
                        data_dir + "/store/fs/uppers/s" + std::to_string(slot),
                        netpolicy::LinkName(instance, slot)});
    }
  }
  return places;
}

bool IsGone(const Place& place) {
  const std::string process = "/proc/" + std::to_string(place.pid);
  return ::access(process.c_str(), F_OK) != 0 && ::access(place.cgroup_dir.c_str(), F_OK) != 0 &&
         ::access(place.upper_dir.c_str(), F_OK) != 0 && ::if_nametoindex(place.link.c_str()) == 0;
}

std::string MachineJson() {
  const std::string cpu = Text("/proc/cpuinfo");
  const size_t model = cpu.find(": ", cpu.find("model name"));
  utsname names{};
  ::uname(&names);
  const auto host = cgroup::DetectHost();
  struct statfs fs {};
  ::statfs("/var/tmp", &fs);
  const long type = fs.f_type;
  const std::string load = Text("/proc/loadavg");
  size_t end = 0;
  for (int i = 0; i < 3 && end != std::string::npos; ++i) end = load.find(' ', end + 1);
  const nlohmann::json json = {
      {"processors", std::thread::hardware_concurrency()},
      {"processor", model == std::string::npos
                        ? "unknown"
                        : cpu.substr(model + 2, cpu.find('\n', model) - model - 2)},
      {"kernel", names.release},
      {"cgroup", !host      ? "none"
                 : host->v2 ? "v2"
                            : "hybrid (v1 limits beside v2)"},
      {"file_system", type == kExt4Magic    ? "ext4"
                      : type == kXfsMagic   ? "xfs"
                      : type == kBtrfsMagic ? "btrfs"
                      : type == kTmpfsMagic ? "tmpfs"
                                            : "other"},
      {"load", load.substr(0, end)},
      {"cpuid_us", CpuidMicros()},
  };
  return json.dump();
}

}  // namespace atl::bench
