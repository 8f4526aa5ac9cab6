// How much of a group's memory is in swap, whether it may go there, and what a group without
// processes is still charged for.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cgroup/keyed_number.h"
#include "cgroup/tree.h"
#include "runtime/base/kernel_version.h"
#include "runtime/base/sys.h"

namespace atl::cgroup {
namespace {

// The highest swappiness that all kernel versions accept. It weighs anonymous memory against caches
// when memory is reclaimed from a group; 0 keeps anonymous memory out of swap.
constexpr const char* kFullSwappiness = "100";

// Writes `value` to `file`, after saving the former value in an attribute of the group. The
// attribute outlives this process and disappears with the group. An existing attribute is kept,
// because this process may have died between the two steps.
Status SaveAndWrite(int group, const std::string& file, const std::string& value) {
  const std::string name = "trusted.atoll." + file;
  ATOLL_ASSIGN(std::string now, sys::ReadFileAt(group, file, 64));
  if (::fsetxattr(group, name.c_str(), now.data(), now.size(), XATTR_CREATE) != 0 &&
      errno != EEXIST) {
    return FailSys("fsetxattr " + name + " of a cgroup");
  }
  return sys::WriteFileAt(group, file, value);
}

Status WriteSaved(int group, const std::string& file) {
  const std::string name = "trusted.atoll." + file;
  std::array<char, 64> value{};
  const ssize_t size = ::fgetxattr(group, name.c_str(), value.data(), value.size());
  if (size < 0 && errno == ENODATA) return {};
  if (size < 0) return FailSys("fgetxattr " + name + " of a cgroup");
  ATOLL_TRY(
      sys::WriteFileAt(group, file, std::string_view(value.data(), static_cast<size_t>(size))));
  if (::fremovexattr(group, name.c_str()) != 0) return FailSys("fremovexattr " + name);
  return {};
}

// Calls `each` for the groups of a sandbox that may have swap settings of their own: its own, run/,
// and those of its sessions. The groups of commands, which may be thousands, have none.
template <typename Each>
Status EachLimited(int base, const std::string& path, const Each& each) {
  ATOLL_ASSIGN(const UniqueFd group, sys::OpenAt(base, path, O_RDONLY | O_DIRECTORY));
  ATOLL_TRY(each(group.get()));
  std::vector<std::string> below;
  ATOLL_TRY(sys::EachName(group.get(), [&](const char* entry) {
    const std::string_view name(entry);
    // The kernel's own files have a dot in their names.
    if (name == "run" || (name.starts_with('x') && name.find('.') == name.npos)) {
      below.emplace_back(name);
    }
    return true;
  }));
  for (const std::string& name : below) {
    const Status done = EachLimited(group.get(), name, each);
    // A session's group disappears when the session ends.
    if (!done && done.error().error_number() != ENOENT && done.error().error_number() != ENODEV) {
      return done;
    }
  }
  return {};
}

std::optional<uint64_t> NumberIn(int file) {
  std::array<char, 64> text{};
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  if (size <= 0) return std::nullopt;
  return LeadingNumber({text.data(), static_cast<size_t>(size)});
}

}  // namespace

Status Tree::AllowSwap(const std::string& group) const {
  if (!host_.v2) {
    const auto memory = v1_.find("memory");
    if (memory == v1_.end()) return Fail(Code::kUnavailable, "no memory controller");
    return EachLimited(memory->second.get(), group, [](int dir) {
      return SaveAndWrite(dir, "memory.swappiness", kFullSwappiness);
    });
  }
  bool first = true;
  return EachLimited(unified_.get(), group, [&](int dir) -> Status {
    const bool whole = std::exchange(first, false);
    ATOLL_ASSIGN(const std::string now, sys::ReadFileAt(dir, "memory.swap.max", 64));
    if (!whole) return now == "max\n" ? Status() : SaveAndWrite(dir, "memory.swap.max", "max");
    // Sized for all of the group's memory, including pages that already have a slot in swap: up to
    // Linux 6.7, a group without swap left is skipped completely when anonymous memory is
    // reclaimed.
    ATOLL_ASSIGN(const std::string gone, sys::ReadFileAt(dir, "memory.swap.current", 64));
    ATOLL_ASSIGN(const std::string here, sys::ReadFileAt(dir, "memory.current", 64));
    const auto swapped = LeadingNumber(gone), resident = LeadingNumber(here);
    if (!swapped || !resident) {
      return Fail(Code::kInternal, group + ": memory.swap.current or memory.current has no number");
    }
    return SaveAndWrite(dir, "memory.swap.max", std::to_string(*swapped + *resident));
  });
}

Status Tree::RestoreSwap(const std::string& group) const {
  const char* file = host_.v2 ? "memory.swap.max" : "memory.swappiness";
  const int base = host_.v2 ? unified_.get() : v1_.at("memory").get();
  return EachLimited(base, group, [&](int dir) { return WriteSaved(dir, file); });
}

Result<PagingFiles> Tree::OpenPaging(const std::string& group) const {
  PagingFiles files;
  for (UniqueFd& reclaim : files.reclaim) {
    ATOLL_ASSIGN(reclaim, OpenReclaim(group));
  }
  const int base = host_.v2 ? unified_.get() : v1_.at("memory").get();
  ATOLL_ASSIGN(files.stat, sys::OpenAt(base, group + "/memory.stat", O_RDONLY));
  if (!host_.v2) return files;
  ATOLL_ASSIGN(files.swap, sys::OpenAt(base, group + "/memory.swap.current", O_RDONLY));
  return files;
}

ChargeFiles Tree::OpenCharges(const std::string& group) const {
  // Until 6.15, cgroup_rstat_flush flushed a whole group; since 6.16 it flushes one controller.
  constexpr KernelVersion kFlushesOneController{6, 16};
  const KernelVersion kernel = RunningKernel();
  if (host_.v2 && kernel != KernelVersion{} && kernel < kFlushesOneController) {
    auto settle = sys::OpenAt(unified_.get(), group + "/cpu.stat", O_RDONLY);
    auto counts = sys::OpenAt(unified_.get(), group + "/memory.stat", O_RDONLY);
    if (!settle || !counts) return {};
    return {.settle = std::move(*settle), .counts = std::move(*counts)};
  }
  const auto memory = v1_.find("memory");
  if (host_.v2 || memory == v1_.end()) return {};
  const int base = memory->second.get();
  auto all = sys::OpenAt(base, group + "/memory.usage_in_bytes", O_RDONLY);
  auto of_kernel = sys::OpenAt(base, group + "/memory.kmem.usage_in_bytes", O_RDONLY);
  auto limit = sys::OpenAt(base, group + "/memory.limit_in_bytes", O_WRONLY);
  if (!all || !of_kernel || !limit) return {};
  return {.all = std::move(*all), .of_kernel = std::move(*of_kernel), .limit = std::move(*limit)};
}

bool OnlyKernelMemory(int all, int of_kernel) {
  const auto total = NumberIn(all);
  return total && total == NumberIn(of_kernel);
}

void LimitToKernelMemory(int of_kernel, int limit) {
  const auto kernel = NumberIn(of_kernel);
  if (!kernel) return;
  const std::string bytes = std::to_string(*kernel);
  [[maybe_unused]] const ssize_t n = ::write(limit, bytes.data(), bytes.size());
}

bool NothingInCaches(int settle, int counts) {
  std::array<char, 8192> text{};
  if (::pread(settle, text.data(), text.size(), 0) <= 0) return false;
  const ssize_t size = ::pread(counts, text.data(), text.size(), 0);
  const std::string_view all(text.data(), size > 0 ? static_cast<size_t>(size) : 0);
  return KeyedNumber(all, "anon") == 0 && KeyedNumber(all, "file") == 0;
}

Result<Paging> ReadPaging(int stat, int swap) {
  std::array<char, 8192> text{};
  const ssize_t size = ::pread(stat, text.data(), text.size(), 0);
  if (size < 0) return FailSys("pread memory.stat");
  const std::string_view all(text.data(), static_cast<size_t>(size));
  // Counted by the kernel's LRU lists, not by what is mapped: a page that was fetched back but not
  // touched yet is in memory, but in no process.
  const std::string of_all = swap >= 0 ? "" : "total_";
  const auto inactive = KeyedNumber(all, of_all + "inactive_anon");
  const auto active = KeyedNumber(all, of_all + "active_anon");
  const auto both = KeyedNumber(all, of_all + "swapcached");
  // A page that is both in memory and in swap counts as swap on v2, and as memory on v1.
  const auto swapped = swap >= 0 ? NumberIn(swap) : KeyedNumber(all, "total_swap");
  if (!inactive || !active || !swapped) {
    return Fail(Code::kInternal, "the kernel does not tell where a group's memory is");
  }
  Paging paging;
  paging.resident_bytes = *inactive + *active;
  paging.both_bytes = std::min(both.value_or(0), paging.resident_bytes);  // Linux 5.12
  paging.swapped_bytes = swap >= 0 ? *swapped - std::min(*swapped, paging.both_bytes) : *swapped;
  return paging;
}

}  // namespace atl::cgroup
