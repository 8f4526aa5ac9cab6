#include <fcntl.h>

#include <cerrno>

#include "cgroup/tree.h"
#include "runtime/base/sys.h"

namespace atl::cgroup {
namespace {

std::string MaxOr(uint64_t value, uint64_t reserve) {
  return value == 0 ? "max" : std::to_string(value + reserve);
}

}  // namespace

// Runtimes read the limit of the group that they are in, and no other (JDK 17, Go). execd gives a
// leaf that of run/ when it makes it; those that it has made by now follow here.
Status Tree::LimitLeaves(const std::string& run, const std::string& memory) const {
  ATOLL_ASSIGN(const UniqueFd directory, sys::OpenAt(unified_.get(), run, O_RDONLY | O_DIRECTORY));
  ATOLL_ASSIGN(const std::vector<std::string> entries, sys::ListDir(directory.get()));
  for (const std::string& entry : entries) {
    if (!entry.starts_with('c') || entry.find('.') != std::string::npos) continue;
    const Status written = sys::WriteFileAt(directory.get(), entry + "/memory.max", memory);
    // A leaf goes when its command has ended.
    const int error = written ? 0 : written.error().error_number();
    if (error != 0 && error != ENOENT && error != ENODEV) return written;
  }
  return {};
}

Status Tree::SetLimitsV2(const std::string& group, const Limits& now, const Limits& next) const {
  const int base = unified_.get();
  const auto write = [&](const char* file, const std::string& value) {
    return sys::WriteFileAt(base, group + file, value);
  };
  if (now.memory_bytes != next.memory_bytes) {
    ATOLL_TRY(write("/memory.max", MaxOr(next.memory_bytes, kReserveMemory)));
    ATOLL_TRY(write("/run/memory.max", MaxOr(next.memory_bytes, 0)));
    ATOLL_TRY(LimitLeaves(group + "/run", MaxOr(next.memory_bytes, 0)));
  }
  // With a memory limit, "no swap" is a limit too: otherwise a sandbox would simply swap the host.
  const bool swap_changes =
      now.swap_bytes != next.swap_bytes || (now.memory_bytes == 0) != (next.memory_bytes == 0);
  if (swap_changes) {
    ATOLL_TRY(write("/memory.swap.max",
                    next.memory_bytes == 0 ? "max" : std::to_string(next.swap_bytes)));
  }
  if (now.pids != next.pids) {
    ATOLL_TRY(write("/pids.max", MaxOr(next.pids, kReservePids)));
    ATOLL_TRY(write("/run/pids.max", MaxOr(next.pids, 0)));
  }
  if (now.cpu_millis != next.cpu_millis) {
    const std::string quota =
        next.cpu_millis == 0 ? "max"
                             : std::to_string(uint64_t{next.cpu_millis} * kPeriodMicros / 1000);
    ATOLL_TRY(write("/cpu.max", quota + " " + std::to_string(kPeriodMicros)));
  }
  if (now.io_read_bps != next.io_read_bps || now.io_write_bps != next.io_write_bps ||
      now.io_read_iops != next.io_read_iops || now.io_write_iops != next.io_write_iops) {
    ATOLL_TRY(write("/io.max", io_device_ + " rbps=" + MaxOr(next.io_read_bps, 0) +
                                   " wbps=" + MaxOr(next.io_write_bps, 0) +
                                   " riops=" + MaxOr(next.io_read_iops, 0) +
                                   " wiops=" + MaxOr(next.io_write_iops, 0)));
  }
  return {};
}

}  // namespace atl::cgroup
