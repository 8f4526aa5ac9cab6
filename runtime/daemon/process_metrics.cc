#include "runtime/daemon/process_metrics.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "runtime/base/clock.h"
#include "runtime/base/sys.h"

namespace atl::daemon {
namespace {

constexpr size_t kFileLimit = 4096;

// The number of that index, from 0, in a line of numbers; 0 if there is none.
double NumberAt(std::string_view line, int index) {
  while (index-- > 0) {
    const size_t blank = line.find(' ');
    if (blank == std::string_view::npos) return 0;
    line.remove_prefix(blank + 1);
  }
  return std::strtod(std::string(line.substr(0, line.find(' '))).c_str(), nullptr);
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

size_t OpenDescriptors() {
  size_t open = 0;
  DIR* const directory = ::opendir("/proc/self/fd");
  if (directory == nullptr) return 0;
  while (::readdir(directory) != nullptr) ++open;
  ::closedir(directory);
  return open > 3 ? open - 3 : 0;  // without ".", ".." and the directory itself
}

}  // namespace

double ProcessStartSeconds() {
  const auto stat = sys::ReadFileAt(AT_FDCWD, "/proc/self/stat", kFileLimit);
  if (!stat || stat->rfind(") ") == std::string::npos) return 0;
  // Field 22 of proc(5); the name in parentheses, which may hold anything, is field 2. In ticks
  // since the boot.
  constexpr int kStartTime = 22 - 3;
  const double ticks = NumberAt(std::string_view(*stat).substr(stat->rfind(") ") + 2), kStartTime);
  const double boot = static_cast<double>(SystemClock().UnixMillis()) / 1e3 -
                      static_cast<double>(SystemClock().BootMicros()) / 1e6;
  return boot + ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

void AddProcessMetrics(MetricSet* metrics) {
  // Once: the clock of the host may be set while we run.
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
