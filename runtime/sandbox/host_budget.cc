#include "runtime/sandbox/host_budget.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/sys.h"
#include "runtime/base/unique_fd.h"

namespace atl::sandbox {
namespace {

constexpr uint64_t kMiB = 1 << 20;
// Room for the host's own work: a twentieth of it, but no more than this.
constexpr uint64_t kMostKeptFree = 256 * kMiB;

// "Name:   123 kB", in bytes; 0 if it is not there.
uint64_t MeminfoBytes(std::string_view text, std::string_view name) {
  const size_t at = text.find(name);
  if (at == std::string_view::npos) return 0;
  text.remove_prefix(at + name.size());
  text.remove_prefix(std::min(text.find_first_of("0123456789"), text.size()));
  uint64_t kib = 0;
  std::from_chars(text.data(), text.data() + text.size(), kib);
  return kib * 1024;
}

std::string ReadMeminfo(int file) {
  // MemTotal and MemAvailable are in the first lines.
  char text[512];
  const ssize_t size = TEMP_FAILURE_RETRY(::pread(file, text, sizeof text, 0));
  return size > 0 ? std::string(text, static_cast<size_t>(size)) : std::string();
}

uint64_t ReadNumber(const std::string& path) {
  const auto text = sys::ReadFileAt(AT_FDCWD, path, 64);
  uint64_t number = 0;
  if (text) std::from_chars(text->data(), text->data() + text->size(), number);
  return number;
}

std::string Mib(uint64_t bytes) {
  return std::to_string(bytes / kMiB) + " MiB";
}

Error Exhausted(const std::string& message) {
  return Error(Code::kResourceExhausted, message, ENOMEM);
}

}  // namespace

HostBudget BudgetOfHost(double overcommit) {
  HostBudget budget;
  auto opened = sys::Open("/proc/meminfo", O_RDONLY);
  if (!opened) return budget;
  const auto file = std::make_shared<UniqueFd>(std::move(*opened));
  budget.memory_total = MeminfoBytes(ReadMeminfo(file->get()), "MemTotal:");
  budget.memory_available = std::min(kMostKeptFree, budget.memory_total / 20);
  budget.memory_budget =
      static_cast<uint64_t>(static_cast<double>(budget.memory_total) * overcommit);
  if (overcommit > 0) budget.pids_budget = ReadNumber("/proc/sys/kernel/pid_max");
  budget.available = [file] { return MeminfoBytes(ReadMeminfo(file->get()), "MemAvailable:"); };
  return budget;
}

Status CheckBudget(const HostBudget& budget, const Held& held, const wire::Limits& asked) {
  if (budget.memory_total != 0 && asked.memory_bytes > budget.memory_total) {
    return Fail(Code::kInvalidArgument, "resourceLimits.memory of " + Mib(asked.memory_bytes) +
                                            " is more than this host has (" +
                                            Mib(budget.memory_total) + ")");
  }
  if (budget.memory_budget != 0 && held.memory_bytes + asked.memory_bytes > budget.memory_budget) {
    return Fail(Exhausted("the memory limits of all sandboxes would be " +
                          Mib(held.memory_bytes + asked.memory_bytes) + ", allowed are " +
                          Mib(budget.memory_budget) +
                          " (runtime.memory_overcommit); delete some, or ask for less"));
  }
  if (budget.pids_budget != 0 && held.pids + asked.pids > budget.pids_budget) {
    return Fail(Exhausted("the pids limits of all sandboxes would be " +
                          std::to_string(held.pids + asked.pids) + ", this host has " +
                          std::to_string(budget.pids_budget) + " (kernel.pid_max)"));
  }
  const uint64_t available = budget.available ? budget.available() : 0;
  if (available != 0 && available < budget.memory_available) {
    return Fail(Exhausted("this host has only " + Mib(available) + " of memory left, and " +
                          Mib(budget.memory_available) + " are kept free; delete some sandboxes"));
  }
  return {};
}

}  // namespace atl::sandbox
