#include "execd/run/metrics.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "execd/core/numbers.h"
#include "execd/http/json.h"
#include "runtime/base/clock.h"
#include "runtime/base/sys.h"

namespace atl::execd {
namespace {

constexpr int64_t kShortSampleUs = 200'000;
constexpr int64_t kStaleSampleUs = 10'000'000;
constexpr int64_t kWatchUs = 2'000'000;
constexpr double kMib = 1024.0 * 1024.0;

// Reads a file that is one number. Returns nullopt for "max", too.
std::optional<int64_t> FileNumber(int dir, const char* name) {
  const auto text = sys::ReadFileAt(dir, name, 4096);
  return text ? ToNumber(*text) : std::nullopt;
}

int OnlineCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(CPU_COUNT(&set), 1) : 1;
}

// Parses "max 100000" or "50000 100000". Returns the number of CPUs; 0 for no limit.
double CpuQuota(std::string_view text) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos) return 0;
  const auto quota = ToNumber(text.substr(0, space)), period = ToNumber(text.substr(space + 1));
  return quota && period && *period > 0 ? static_cast<double>(*quota) / static_cast<double>(*period)
                                        : 0;
}

// Reads a counter from the v1 files on hybrid hosts, else from the cgroup directory that execd
// holds.
std::optional<int64_t> Counted(const Core& core, wire::ExecdAccount account, const char* file) {
  const auto v1 = core.accounts.Number(account);
  return v1 ? v1 : FileNumber(core.cgroup_fd, file);
}

std::optional<int64_t> CommandsUse(const Core& core) {
  return Counted(core, wire::ExecdAccount::kMemoryUsage, "memory.current");
}

std::optional<int64_t> CommandsMayUse(const Core& core) {
  return Counted(core, wire::ExecdAccount::kMemoryLimit, "memory.max");
}

struct Memory {
  int64_t used = 0, total = 0;
};

// Returns the memory use of commands, or if that is unknown, that of the sandbox's own view of
// cgroup v2.
Result<Memory> SandboxMemory(const Core& core) {
  std::optional<int64_t> used = CommandsUse(core);
  std::optional<int64_t> limit = CommandsMayUse(core);
  if (!used) used = FileNumber(AT_FDCWD, "/sys/fs/cgroup/memory.current");
  if (!limit) limit = FileNumber(AT_FDCWD, "/sys/fs/cgroup/memory.max");
  ATOLL_ASSIGN(const std::string info, sys::ReadFileAt(AT_FDCWD, "/proc/meminfo", 16384));
  const auto host = KeyNumber(info, "MemTotal:"), host_free = KeyNumber(info, "MemAvailable:");
  if (!host || (!used && !host_free)) {
    return Fail(Code::kInternal, "/proc/meminfo does not tell MemTotal and MemAvailable");
  }
  Memory memory;
  memory.total = std::min(limit.value_or(INT64_MAX), *host * 1024);
  memory.used = used ? *used : (*host - *host_free) * 1024;
  memory.used = std::clamp<int64_t>(memory.used, 0, memory.total);
  return memory;
}

double CpuCount(const Core& core) {
  const double limit = CpuLimit(core), online = OnlineCpus();
  return limit > 0 && limit < online ? limit : online;
}

struct Network {
  int64_t received = 0, sent = 0;
};

// Returns the totals of all interfaces except loopback. Nothing if the kernel does not tell.
std::optional<Network> NetworkTotals() {
  Network total;
  const auto text = sys::ReadFileAt(AT_FDCWD, "/proc/net/dev", 1 << 20);
  if (!text) return std::nullopt;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    std::string_view name = line.substr(0, colon);
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    if (name == "lo") continue;
    line.remove_prefix(colon + 1);
    for (int column = 0; column < 9 && !line.empty(); ++column) {
      const size_t start = std::min(line.find_first_not_of(' '), line.size());
      line.remove_prefix(start);
      const size_t size = std::min(line.find(' '), line.size());
      const auto value = ToNumber(line.substr(0, size));
      line.remove_prefix(size);
      if (column != 0 && column != 8) continue;
      if (!value) return std::nullopt;
      (column == 0 ? total.received : total.sent) += *value;
    }
  }
  return total;
}

void AppendMember(std::string* out, std::string_view name, double value) {
  out->append(out->size() > 1 ? ",\"" : "\"").append(name).append("\":");
  AppendJsonDecimal(out, value);
}
void AppendMember(std::string* out, std::string_view name, int64_t value) {
  out->append(out->size() > 1 ? ",\"" : "\"").append(name).append("\":");
  AppendJsonInteger(out, value);
}

// Appends the bytes read from and written to all devices, if the io controller counts them (v2
// only): lines "8:0 rbytes=1 wbytes=2 …". Appends nothing for what it cannot understand.
void AppendDiskTraffic(int cgroup_fd, std::string* out) {
  const auto text = sys::ReadFileAt(cgroup_fd, "io.stat", 64 << 10);
  if (!text) return;
  const auto append = [&](std::string_view member, std::string_view key) {
    int64_t sum = 0;
    for (size_t at = text->find(key); at != std::string::npos; at = text->find(key, at + 1)) {
      const std::string_view rest = std::string_view(*text).substr(at + key.size());
      const auto bytes = ToNumber(rest.substr(0, rest.find_first_of(" \n")));
      if (!bytes) return;
      sum += *bytes;
    }
    AppendMember(out, member, sum);
  };
  append("disk_read_bytes", " rbytes=");
  append("disk_written_bytes", " wbytes=");
}

}  // namespace

double CpuLimit(const Core& core) {
  constexpr double kV1PeriodUs = 100'000;
  if (const auto v1 = core.accounts.Number(wire::ExecdAccount::kCpuQuota)) {
    return std::max(static_cast<double>(*v1), 0.0) / kV1PeriodUs;
  }
  const auto own = sys::ReadFileAt(core.cgroup_fd, "cpu.max", 256);
  const double quota = own ? CpuQuota(*own) : 0;
  if (quota > 0) return quota;
  const auto seen = sys::ReadFileAt(AT_FDCWD, "/sys/fs/cgroup/cpu.max", 256);
  return seen ? CpuQuota(*seen) : 0;
}

int64_t MemoryRoom(const Core& core) {
  const auto limit = CommandsMayUse(core), used = CommandsUse(core);
  if (!limit) return INT64_MAX;
  return used ? *limit - *used : 0;
}

std::optional<int64_t> CpuUsed(const Core& core) {
  // The group above that of the commands is the sandbox's, or the session's: with execd, and with
  // the interceptor of a credential vault, which counts against the same limit. cpu.stat of v2 has
  // the usage even without the cpu controller.
  auto text = core.cgroup_fd >= 0 ? sys::ReadFileAt(core.cgroup_fd, "../cpu.stat", 4096)
                                  : sys::ReadFileAt(AT_FDCWD, "/sys/fs/cgroup/cpu.stat", 4096);
  if (!text && text.error().code() == Code::kNotFound) return 0;
  return text ? KeyNumber(*text, "usage_usec") : std::nullopt;
}

Metrics::CpuSample Metrics::SampleCpu() const {
  return {MonotonicMicros(), CpuUsed(core_)};
}

Result<std::string> Metrics::Json(const CpuSample& from, const CpuSample& to) const {
  if (!from.used_us || !to.used_us) {
    return Fail(Code::kInternal, "the sandbox's processor time cannot be read");
  }
  const double cores = CpuCount(core_);
  const double elapsed = static_cast<double>(std::max<int64_t>(to.at_us - from.at_us, 1));
  const double used = static_cast<double>(*to.used_us - *from.used_us);
  ATOLL_ASSIGN(const Memory memory, SandboxMemory(core_));
  std::string out = "{";
  AppendMember(&out, "cpu_count", cores);
  AppendMember(&out, "cpu_used_pct", std::clamp(100.0 * used / elapsed / cores, 0.0, 100.0));
  AppendMember(&out, "mem_total_mib", static_cast<double>(memory.total) / kMib);
  AppendMember(&out, "mem_used_mib", static_cast<double>(memory.used) / kMib);
  AppendMember(&out, "timestamp", UnixMillis());
  struct statvfs disk;
  if (::statvfs("/", &disk) == 0) {
    const double block = static_cast<double>(disk.f_frsize) / kMib;
    AppendMember(&out, "disk_total_mib", static_cast<double>(disk.f_blocks) * block);
    AppendMember(&out, "disk_used_mib", static_cast<double>(disk.f_blocks - disk.f_bfree) * block);
  }
  AppendDiskTraffic(core_.cgroup_fd, &out);
  if (const auto network = NetworkTotals()) {
    AppendMember(&out, "net_received_bytes", network->received);
    AppendMember(&out, "net_sent_bytes", network->sent);
  }
  out.push_back('}');
  return out;
}

void Metrics::Respond(const std::shared_ptr<Exchange>& exchange, const CpuSample& from) const {
  const auto json = Json(from, last_);
  if (!json) return exchange->RespondError(500, "RUNTIME_ERROR", json.error().message());
  exchange->RespondJson(200, *json);
}

// Upstream sleeps a second to measure. Here the last sample is used if it is recent. Otherwise two
// samples are taken a short time apart.
void Metrics::Get(const std::shared_ptr<Exchange>& exchange) {
  const CpuSample now = SampleCpu();
  const int64_t age = now.at_us - last_.at_us;
  if (last_.at_us != 0 && age >= kShortSampleUs && age <= kStaleSampleUs) {
    return Respond(exchange, std::exchange(last_, now));
  }
  core_.loop.After(kShortSampleUs, [this, exchange, now] {
    last_ = SampleCpu();
    Respond(exchange, now);
  });
}

void Metrics::Watch(const std::shared_ptr<Exchange>& exchange) {
  exchange->StartStream(200, {{"Content-Type", "text/event-stream"},
                              {"Cache-Control", "no-cache"},
                              {"Connection", "keep-alive"},
                              {"X-Accel-Buffering", "no"}});
  WatchTick(exchange, SampleCpu(), kShortSampleUs);
}

void Metrics::WatchTick(const std::shared_ptr<Exchange>& exchange, CpuSample last,
                        int64_t delay_us) {
  core_.loop.After(delay_us, [this, exchange, last] {
    if (exchange->closed()) return;
    const CpuSample now = SampleCpu();
    // A client that does not read gets nothing more until it does.
    if (exchange->backlog() < 4096) {
      if (const auto json = Json(last, now)) exchange->Write(*json + "\n");
    }
    WatchTick(exchange, now, kWatchUs);
  });
}

}  // namespace atl::execd
