#include "runtime/daemon/process_metrics.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cgroup/keyed_number.h"
#include "runtime/base/clock.h"
#include "runtime/base/sys.h"

namespace atl::daemon {
namespace {

constexpr size_t kFileLimit = 4096;

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

size_t OpenDescriptors() {
  const auto directory = sys::Open("/proc/self/fd", O_RDONLY | O_DIRECTORY);
  if (!directory) return 0;
  const auto names = sys::ListDir(directory->get());
  // Subtracts the descriptor of the directory and the one that lists it.
  return names && names->size() > 2 ? names->size() - 2 : 0;
}

// Returns when the kernel started this process, in seconds since the Unix epoch.
std::optional<double> ProcessStartSeconds() {
  const auto ticks = sys::ProcessStartTime(::getpid());
  if (!ticks) return std::nullopt;
  const double boot = static_cast<double>(SystemClock().UnixMillis()) / 1e3 -
                      static_cast<double>(SystemClock().BootMicros()) / 1e6;
  return boot + static_cast<double>(*ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace

void AddProcessMetrics(MetricSet* metrics) {
  // Computed once, because the host's clock may be set meanwhile.
  static const std::optional<double> start = ProcessStartSeconds();
  if (start) {
    metrics
        ->Gauge("process_start_time_seconds",
                "Start time of the process since the Unix epoch in seconds.")
        .Add(*start);
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  metrics->Counter("process_cpu_seconds_total", "Total user and system CPU time in seconds.")
      .Add(Seconds(usage.ru_utime) + Seconds(usage.ru_stime));
  // The second number of proc_pid_statm(5), in pages.
  const auto memory = sys::ReadFileAt(AT_FDCWD, "/proc/self/statm", kFileLimit);
  const size_t blank = memory ? memory->find(' ') : std::string::npos;
  if (blank != std::string::npos) {
    if (const auto pages = cgroup::LeadingNumber(std::string_view(*memory).substr(blank + 1))) {
      metrics->Gauge("process_resident_memory_bytes", "Resident memory size in bytes.")
          .Add(*pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)));
    }
  }
  metrics->Gauge("process_open_fds", "Number of open file descriptors.").Add(OpenDescriptors());
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  metrics->Gauge("process_max_fds", "Maximum number of open file descriptors.").Add(limit.rlim_cur);
}

}  // namespace atl::daemon
