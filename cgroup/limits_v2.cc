#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>
#include <vector>

#include "cgroup/tree.h"
#include "runtime/base/sys.h"

namespace atl::cgroup {
namespace {

std::string MaxOr(uint64_t value, uint64_t reserve) {
  return value == 0 ? "max" : std::to_string(value + reserve);
}

}  // namespace

// Some runtimes (JDK 17, Go) read the memory limit only from their own group. execd copies the
// limit of run/ to each leaf that it makes. This updates existing leaves and sessions.
Status Tree::LimitLeaves(const std::string& run, const std::string& memory) const {
  ATOLL_ASSIGN(const UniqueFd directory, sys::OpenAt(unified_.get(), run, O_RDONLY | O_DIRECTORY));
  ATOLL_ASSIGN(const std::vector<std::string> entries, sys::ListDir(directory.get()));
  for (const std::string& entry : entries) {
    const bool session = entry.starts_with('x');
    if ((!session && !entry.starts_with('c')) || entry.find('.') != std::string::npos) continue;
    const Status written = session
                               ? ShowLimits(run + "/" + entry)
                               : sys::WriteFileAt(directory.get(), entry + "/memory.max", memory);
    // A leaf disappears when its command ends.
    const int error = written ? 0 : written.error().error_number();
    if (error != 0 && error != ENOENT && error != ENODEV) return written;
  }
  return {};
}

Result<uint64_t> Tree::ReadLimit(const std::string& path) const {
  ATOLL_ASSIGN(const std::string text, sys::ReadFileAt(unified_.get(), path + "/memory.max", 64));
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? value : UINT64_MAX;
}

Status Tree::ShowLimits(const std::string& group) const {
  if (!host_.v2) return {};
  const std::string run = group.substr(0, group.rfind('/'));
  for (;;) {
    ATOLL_ASSIGN(const uint64_t sandbox, ReadLimit(run));
    ATOLL_ASSIGN(const uint64_t own, ReadLimit(group));
    const uint64_t least =
        std::min(sandbox, own == UINT64_MAX ? own : own - std::min(own, kReserveMemory));
    const std::string memory = least == UINT64_MAX ? "max" : std::to_string(least);
    ATOLL_TRY(sys::WriteFileAt(unified_.get(), group + "/run/memory.max", memory));
    ATOLL_TRY(LimitLeaves(group + "/run", memory));
    // Another process may have changed the sandbox's limit meanwhile.
    ATOLL_ASSIGN(const uint64_t still, ReadLimit(run));
    if (still == sandbox) return {};
  }
}

Status Tree::FitReserveV2(const std::string& group) const {
  ATOLL_ASSIGN(const uint64_t run, ReadLimit(group + "/run"));
  if (run == UINT64_MAX) return {};
  return sys::WriteFileAt(unified_.get(), group + "/memory.max",
                          std::to_string(run + ReserveOf(group)));
}

Status Tree::SetLimitsV2(const std::string& group, const Limits& now, const Limits& next) const {
  const int base = unified_.get();
  const auto write = [&](const char* file, const std::string& value) {
    return sys::WriteFileAt(base, group + file, value);
  };
  if (now.memory_bytes != next.memory_bytes) {
    ATOLL_TRY(write("/memory.max", MaxOr(next.memory_bytes, ReserveOf(group))));
    ATOLL_TRY(write("/run/memory.max", MaxOr(next.memory_bytes, 0)));
    ATOLL_TRY(LimitLeaves(group + "/run", MaxOr(next.memory_bytes, 0)));
  }
  // If memory is limited, "no swap" is a limit too. Otherwise the sandbox would simply move its
  // memory to the host's swap.
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
