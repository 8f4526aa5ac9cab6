#include "cgroup/host.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "runtime/base/sys.h"

namespace atl::cgroup {
namespace {

constexpr size_t kMountinfoLimit = 4 << 20;
constexpr const char* kV1Controllers[] = {"memory", "pids", "cpu", "blkio", "cpuacct", "cpuset"};

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = text.find(separator);
    if (end != 0) parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return parts;
}

bool Contains(const std::vector<std::string_view>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

// The format is in proc(5): "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root
// rw,errors=continue"
void ReadMount(std::string_view line, Host* host) {
  const size_t dash = line.find(" - ");
  if (dash == std::string_view::npos) return;
  const auto head = Split(line.substr(0, dash), ' ');
  const auto tail = Split(line.substr(dash + 3), ' ');
  if (head.size() < 5 || tail.size() < 3) return;
  const std::string mount_point(head[4]);
  if (tail[0] == "cgroup2" && host->unified.empty()) host->unified = mount_point;
  if (tail[0] != "cgroup") return;
  const auto options = Split(tail[2], ',');
  for (const char* controller : kV1Controllers) {
    if (Contains(options, controller)) host->v1.emplace(controller, mount_point);
  }
}

void ListLimits(Host* host, bool swap, const std::vector<std::string_view>& v2_controllers) {
  const auto has = [&](const char* v2_name, const char* v1_name) {
    return host->v2 ? Contains(v2_controllers, v2_name) : host->v1.count(v1_name) != 0;
  };
  if (has("memory", "memory")) host->limits.push_back("memory");
  if (has("memory", "memory") && swap) host->limits.push_back("swap");
  if (has("pids", "pids")) host->limits.push_back("pids");
  if (has("cpu", "cpu")) host->limits.push_back("cpu");
  if (has("io", "blkio")) host->limits.push_back("io");
}

Result<std::string> ReadFile(const std::string& path) {
  return sys::ReadFileAt(AT_FDCWD, path, kMountinfoLimit);
}

}  // namespace

Result<Host> DetectHost(std::string_view mountinfo,
                        Result<std::string> (*read)(const std::string& path)) {
  Host host;
  for (std::string_view line : Split(mountinfo, '\n')) ReadMount(line, &host);
  if (host.unified.empty()) {
    return Fail(
        Code::kUnavailable,
        "no cgroup v2 hierarchy is mounted: boot with systemd.unified_cgroup_hierarchy=1 or "
        "mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified");
  }
  ATOLL_ASSIGN(const std::string controllers, read(host.unified + "/cgroup.controllers"));
  std::string_view trimmed = controllers;
  while (!trimmed.empty() && trimmed.back() == '\n') trimmed.remove_suffix(1);
  const auto available = Split(trimmed, ' ');
  host.v2 = Contains(available, "memory") && Contains(available, "pids");
  // The files do not exist without CONFIG_SWAP or with swapaccount=0. The v2 root has no limit
  // files, so /proc/swaps is checked instead.
  const bool swap = host.v2
                        ? read("/proc/swaps").has_value()
                        : host.v1.count("memory") != 0 &&
                              read(host.v1["memory"] + "/memory.memsw.limit_in_bytes").has_value();
  if (!host.v2 && (host.v1.count("memory") == 0 || host.v1.count("pids") == 0)) {
    return Fail(
        Code::kUnavailable,
        "cgroup controllers memory and pids are neither in " + host.unified +
            "/cgroup.controllers nor mounted as v1: enable them on the kernel command line");
  }
  if (host.v2) host.v1.clear();
  ListLimits(&host, swap, available);
  return host;
}

Result<Host> DetectHost() {
  ATOLL_ASSIGN(const std::string mountinfo,
               sys::ReadFileAt(AT_FDCWD, "/proc/self/mountinfo", kMountinfoLimit));
  return DetectHost(mountinfo, ReadFile);
}

}  // namespace atl::cgroup
