// Whether, and how much of, a group's memory is in swap; and what one without processes is still
// charged for.
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

// The kernel's greatest that all versions take; it says how anonymous pages and caches are weighed
// when memory is taken from a group, and 0 that the former stay.
constexpr const char* kSwappy = "100";

// What `file` says is kept as an attribute of the group before it says `value`: with the group it
// outlives us, and dies. The first one counts, should we have died in between.
Status Put(int group, const std::string& file, const std::string& value) {
  const std::string name = "trusted.atoll." + file;
  ATOLL_ASSIGN(std::string now, sys::ReadFileAt(group, file, 64));
  if (::fsetxattr(group, name.c_str(), now.data(), now.size(), XATTR_CREATE) != 0 &&
      errno != EEXIST) {
    return FailSys("fsetxattr " + name + " of a cgroup");
  }
  return sys::WriteFileAt(group, file, value);
}

Status PutBack(int group, const std::string& file) {
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

// The groups of a sandbox that may have a word of their own about memory: its own, run/, and those
// of sessions in there. Those of commands, of which it may have thousands, have none about swap.
template <typename Each>
Status EachLimited(int base, const std::string& path, const Each& each) {
  ATOLL_ASSIGN(const UniqueFd group, sys::OpenAt(base, path, O_RDONLY | O_DIRECTORY));
  ATOLL_TRY(each(group.get()));
  std::vector<std::string> below;
  ATOLL_TRY(sys::EachName(group.get(), [&](const char* entry) {
    const std::string_view name(entry);
    // Files of the kernel's have a dot in their names.
    if (name == "run" || (name.starts_with('x') && name.find('.') == name.npos)) {
      below.emplace_back(name);
    }
    return true;
  }));
  for (const std::string& name : below) {
    const Status done = EachLimited(group.get(), name, each);
    // A session's goes when it ends.
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
    return EachLimited(memory->second.get(), group,
                       [](int dir) { return Put(dir, "memory.swappiness", kSwappy); });
  }
  bool first = true;
  return EachLimited(unified_.get(), group, [&](int dir) -> Status {
    const bool whole = std::exchange(first, false);
    ATOLL_ASSIGN(const std::string now, sys::ReadFileAt(dir, "memory.swap.max", 64));
    if (!whole) return now == "max\n" ? Status() : Put(dir, "memory.swap.max", "max");
    // Not only for what has no place in swap yet: up to Linux 6.7 a group that may have no more of
    // it is not looked at for anonymous memory at all, what has its place there included.
    ATOLL_ASSIGN(const std::string gone, sys::ReadFileAt(dir, "memory.swap.current", 64));
    ATOLL_ASSIGN(const std::string here, sys::ReadFileAt(dir, "memory.current", 64));
    return Put(dir, "memory.swap.max", std::to_string(LeadingNumber(gone) + LeadingNumber(here)));
  });
}

Status Tree::RestoreSwap(const std::string& group) const {
  const char* file = host_.v2 ? "memory.swap.max" : "memory.swappiness";
  const int base = host_.v2 ? unified_.get() : v1_.at("memory").get();
  return EachLimited(base, group, [&](int dir) { return PutBack(dir, file); });
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
  // cgroup_rstat_flush was of a group, and is of one controller in it since then.
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
  const std::string bytes = std::to_string(NumberIn(of_kernel).value_or(0));
  [[maybe_unused]] const ssize_t n = ::write(limit, bytes.data(), bytes.size());
}

bool NothingInCaches(int settle, int counts) {
  std::array<char, 8192> text{};
  if (::pread(settle, text.data(), text.size(), 0) <= 0) return false;
  const ssize_t size = ::pread(counts, text.data(), text.size(), 0);
  const std::string_view all(text.data(), size > 0 ? static_cast<size_t>(size) : 0);
  return all.starts_with("anon ") && KeyedNumber(all, "anon") == 0 && KeyedNumber(all, "file") == 0;
}

Paging ReadPaging(int stat, int swap) {
  std::array<char, 8192> text{};
  const ssize_t size = ::pread(stat, text.data(), text.size(), 0);
  const std::string_view all(text.data(), size > 0 ? static_cast<size_t>(size) : 0);
  // By the lists that pages are taken from, not by what is mapped: one that was fetched and that
  // nobody has touched is in memory, and in no process.
  const std::string of_all = swap >= 0 ? "" : "total_";
  Paging paging;
  paging.resident_bytes =
      KeyedNumber(all, of_all + "inactive_anon") + KeyedNumber(all, of_all + "active_anon");
  paging.both_bytes = std::min(KeyedNumber(all, of_all + "swapcached"), paging.resident_bytes);
  // v2 counts what is in both as in swap, v1 as in memory.
  const uint64_t swapped = swap >= 0 ? NumberIn(swap).value_or(0) : KeyedNumber(all, "total_swap");
  paging.swapped_bytes = swap >= 0 ? swapped - std::min(swapped, paging.both_bytes) : swapped;
  return paging;
}

}  // namespace atl::cgroup
