#include "runtime/daemon/process_metrics.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/clock.h"
#include "runtime/base/sys.h"

namespace atl::daemon {
namespace {

constexpr size_t kFileLimit = 4096;

// Returns the number with that index, from 0, in a line of numbers; 0 if there is none.
double NumberAt(std::string_view line, int index) {
  while (index-- > 0) {
    const size_t blank = line.find(' ');
    if (blank == std::string_view::npos) return 0;
    line.remove_prefix(blank + 1);
  }
  uint64_t number = 0;
  std::from_chars(line.data(), line.data() + line.size(), number);
  return static_cast<double>(number);
}

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

}  // namespace

double ProcessStartSeconds() {
  const auto stat = sys::ReadFileAt(AT_FDCWD, "/proc/self/stat", kFileLimit);
  if (!stat || stat->rfind(") ") == std::string::npos) return 0;
  // Field 22 of proc(5), in ticks since boot. Field 2 is the name in parentheses, which may contain
  // anything.
  constexpr int kStartTime = 22 - 3;
  const double ticks = NumberAt(std::string_view(*stat).substr(stat->rfind(") ") + 2), kStartTime);
  const double boot = static_cast<double>(SystemClock().UnixMillis()) / 1e3 -
                      static_cast<double>(SystemClock().BootMicros()) / 1e6;
  return boot + ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

void AddProcessMetrics(MetricSet* metrics) {
  // Computed once, because the host's clock may be set meanwhile.
  static const double start = ProcessStartSeconds();
  metrics
      ->Gauge("process_start_time_seconds",
              "Start time of the process since the Unix epoch in seconds.")
      .Add(start);
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  metrics->Counter("process_cpu_seconds_total", "Total user and system CPU time in seconds.")
      .Add(Seconds(usage.ru_utime) + Seconds(usage.ru_stime));
  if (const auto memory = sys::ReadFileAt(AT_FDCWD, "/proc/self/statm", kFileLimit)) {
    metrics->Gauge("process_resident_memory_bytes", "Resident memory size in bytes.")
        .Add(NumberAt(*memory, 1) * static_cast<double>(::sysconf(_SC_PAGESIZE)));
  }
  metrics->Gauge("process_open_fds", "Number of open file descriptors.").Add(OpenDescriptors());
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  metrics->Gauge("process_max_fds", "Maximum number of open file descriptors.").Add(limit.rlim_cur);
}

}  // namespace atl::daemon
