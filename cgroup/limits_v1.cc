#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "cgroup/tree.h"
#include "runtime/base/sys.h"

namespace atl::cgroup {
namespace {

// Divisor of the additional memory limit for sockets.
constexpr uint64_t kSocketShare = 4;
// The kernel shows "no limit" as the largest multiple of a page.
constexpr uint64_t kUnlimited = uint64_t{1} << 62;
// The default for groups whose swappiness was not set.
constexpr const char* kSwappiness = "/proc/sys/vm/swappiness";

std::string OrUnlimited(uint64_t value, uint64_t reserve) {
  return value == 0 ? "-1" : std::to_string(value + reserve);
}

}  // namespace

Status Tree::WriteV1(const std::string& controller, const std::string& path,
                     const std::string& value) const {
  const auto base = v1_.find(controller);
  if (base == v1_.end()) {
    return Fail(Code::kUnavailable, "cgroup v1 controller " + controller + " is not mounted");
  }
  return sys::WriteFileAt(base->second.get(), path, value);
}

Status Tree::FitReserveV1(const std::string& group) const {
  // The limit on memory and swap together must not become the lower one. It is missing on kernels
  // that do not count swap.
  for (const char* file : {"/memory.memsw.limit_in_bytes", "/memory.limit_in_bytes"}) {
    const int base = v1_.at("memory").get();
    const auto text = sys::ReadFileAt(base, group + "/run" + file, 64);
    if (!text && text.error().error_number() == ENOENT) continue;
    if (!text) return Fail(text.error());
    uint64_t run = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), run);
    if (error != std::errc()) return Fail(Code::kInternal, group + "/run" + file + ": no number");
    if (run >= kUnlimited) continue;
    ATOLL_TRY(WriteV1("memory", group + file, std::to_string(run + ReserveOf(group))));
  }
  return {};
}

Status Tree::SetLimitsV1(const std::string& group, const Limits& now, const Limits& next) const {
  if (now.memory_bytes != next.memory_bytes || now.swap_bytes != next.swap_bytes) {
    const bool swap =
        std::find(host_.limits.begin(), host_.limits.end(), "swap") != host_.limits.end();
    // The kernel requires limit <= memsw at every moment (EINVAL), so a decrease starts with the
    // limit and an increase with memsw.
    const bool raise = next.memory_bytes == 0 ||
                       (now.memory_bytes != 0 &&
                        next.memory_bytes + next.swap_bytes > now.memory_bytes + now.swap_bytes);
    for (const auto& [path, reserve] :
         {std::pair{group, ReserveOf(group)}, {group + "/run", uint64_t{0}}}) {
      const std::string memory = OrUnlimited(next.memory_bytes, reserve);
      const std::string memory_and_swap = OrUnlimited(next.memory_bytes, reserve + next.swap_bytes);
      const std::string limit = path + "/memory.limit_in_bytes";
      const std::string memsw = path + "/memory.memsw.limit_in_bytes";
      if (swap && raise) ATOLL_TRY(WriteV1("memory", memsw, memory_and_swap));
      ATOLL_TRY(WriteV1("memory", limit, memory));
      if (swap && !raise) ATOLL_TRY(WriteV1("memory", memsw, memory_and_swap));
      // A limit on both together does not keep a group that is below it out of swap when the host
      // is short of memory: see Tree::Create.
      if ((now.swap_bytes == 0) == (next.swap_bytes == 0)) continue;
      ATOLL_ASSIGN(const std::string swappy, sys::ReadFileAt(AT_FDCWD, kSwappiness, 64));
      ATOLL_TRY(
          WriteV1("memory", path + "/memory.swappiness", next.swap_bytes == 0 ? "0" : swappy));
    }
    // Buffers of TCP and UDP sockets are not part of v1's memory limit and would be charged to
    // nobody. The limit is set on the group that creates the sockets, because only sockets of a
    // limited group are counted. The file is missing on kernels without this limit.
    Status sockets = WriteV1("memory", group + "/run/memory.kmem.tcp.limit_in_bytes",
                             OrUnlimited(next.memory_bytes / kSocketShare, 0));
    if (!sockets && sockets.error().error_number() != ENOENT) return sockets;
  }
  if (now.pids != next.pids) {
    const std::string all = next.pids == 0 ? "max" : std::to_string(next.pids + kReservePids);
    const std::string commands = next.pids == 0 ? "max" : std::to_string(next.pids);
    ATOLL_TRY(WriteV1("pids", group + "/pids.max", all));
    ATOLL_TRY(WriteV1("pids", group + "/run/pids.max", commands));
  }
  if (now.cpu_millis != next.cpu_millis) {
    ATOLL_TRY(WriteV1("cpu", group + "/cpu.cfs_quota_us",
                      next.cpu_millis == 0
                          ? "-1"
                          : std::to_string(uint64_t{next.cpu_millis} * kPeriodMicros / 1000)));
  }
  const auto throttle = [&](const char* file, uint64_t before, uint64_t after) -> Status {
    if (before == after) return {};
    return WriteV1("blkio", group + "/blkio.throttle." + file,
                   io_device_ + " " + std::to_string(after));
  };
  ATOLL_TRY(throttle("read_bps_device", now.io_read_bps, next.io_read_bps));
  ATOLL_TRY(throttle("write_bps_device", now.io_write_bps, next.io_write_bps));
  ATOLL_TRY(throttle("read_iops_device", now.io_read_iops, next.io_read_iops));
  ATOLL_TRY(throttle("write_iops_device", now.io_write_iops, next.io_write_iops));
  return {};
}

}  // namespace atl::cgroup
