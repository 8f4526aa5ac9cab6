#include "cgroup/meters.h"

#include <fcntl.h>

#include <algorithm>
#include <string_view>

#include "cgroup/keyed_number.h"
#include "runtime/base/sys.h"

namespace atl::cgroup {
namespace {

constexpr size_t kMetersLimit = 64 << 10;

std::string Read(const std::string& path) {
  auto text = sys::ReadFileAt(AT_FDCWD, path, kMetersLimit);
  return text ? std::move(*text) : std::string();
}

// The directories of one group: in the v2 hierarchy, and on hybrid hosts in those of v1.
class Place {
 public:
  Place(const Host& host, const std::string& path, const std::string& group)
      : host_(host), path_(path), group_(group) {}

  std::string Unified(const char* file) const { return Read(path_ + "/" + group_ + file); }
  std::string V1(const char* controller, const char* file) const {
    const auto found = host_.v1.find(controller);
    if (found == host_.v1.end()) return {};
    return Read(found->second + path_.substr(path_.rfind('/')) + "/" + group_ + file);
  }
  uint64_t NumberV1(const char* controller, const char* file, const char* key) const {
    return KeyedNumber(V1(controller, file), key);
  }

 private:
  const Host& host_;
  const std::string& path_;
  const std::string& group_;
};

uint64_t MemoryInUse(const Host& host, const Place& place) {
  if (host.v2) {
    const std::string stat = place.Unified("/memory.stat");
    return KeyedNumber(stat, "anon") + KeyedNumber(stat, "shmem") + KeyedNumber(stat, "kernel");
  }
  const std::string stat = place.V1("memory", "/memory.stat");
  return KeyedNumber(stat, "total_rss") + KeyedNumber(stat, "total_shmem") +
         LeadingNumber(place.V1("memory", "/memory.kmem.usage_in_bytes"));
}

GroupEvents Events(const Host& host, const Place& place) {
  if (host.v2) {
    // Since Linux 6.11 a group also counts the events of its descendants. Earlier kernels count the
    // forks of its own processes, and commands fork in run/.
    return {.oom_kills = KeyedNumber(place.Unified("/memory.events"), "oom_kill"),
            .pids_hits = std::max(KeyedNumber(place.Unified("/pids.events"), "max"),
                                  KeyedNumber(place.Unified("/run/pids.events"), "max"))};
  }
  // v1 does not add up events of descendants.
  return {.oom_kills = place.NumberV1("memory", "/memory.oom_control", "oom_kill") +
                       place.NumberV1("memory", "/run/memory.oom_control", "oom_kill"),
          .pids_hits = place.NumberV1("pids", "/pids.events", "max") +
                       place.NumberV1("pids", "/run/pids.events", "max")};
}

// Adds up the numbers that follow `key` in a file with a line for each disk: "8:0 rbytes=1 …" in
// v2, "8:0 Read 1" in v1.
uint64_t SumOf(std::string_view text, std::string_view key) {
  uint64_t sum = 0;
  for (size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at)) {
    at += key.size();
    sum += LeadingNumber(text.substr(at));
  }
  return sum;
}

}  // namespace

Meters ReadMeters(const Host& host, const std::string& path, const std::string& group) {
  const Place place(host, path, group);
  Meters meters;
  meters.cpu_micros = KeyedNumber(place.Unified("/cpu.stat"), "usage_usec");
  meters.memory_bytes = MemoryInUse(host, place);
  meters.events = Events(host, place);
  if (host.v2) {
    meters.peak_memory_bytes = LeadingNumber(place.Unified("/memory.peak"));
    const std::string io = place.Unified("/io.stat");
    meters.read_bytes = SumOf(io, " rbytes=");
    meters.written_bytes = SumOf(io, " wbytes=");
    return meters;
  }
  meters.peak_memory_bytes = LeadingNumber(place.V1("memory", "/memory.max_usage_in_bytes"));
  const std::string io = place.V1("blkio", "/blkio.throttle.io_service_bytes_recursive");
  meters.read_bytes = SumOf(io, " Read ");
  meters.written_bytes = SumOf(io, " Write ");
  return meters;
}

uint64_t ReadMemoryInUse(const Host& host, const std::string& path, const std::string& group) {
  return MemoryInUse(host, Place(host, path, group));
}

GroupEvents EventsOf(const Host& host, const std::string& path, const std::string& group) {
  return Events(host, Place(host, path, group));
}

}  // namespace atl::cgroup
