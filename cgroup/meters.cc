#include "cgroup/meters.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>
#include <vector>

#include "cgroup/keyed_number.h"
#include "runtime/base/sys.h"

namespace atl::cgroup {
namespace {

constexpr size_t kMetersLimit = 64 << 10;

// The files of one group: in the v2 hierarchy, and on hybrid hosts in those of v1.
class Place {
 public:
  Place(const Host& host, const std::string& path, const std::string& group)
      : host_(host), path_(path), group_(group) {}

  std::string Unified(const char* file) const { return path_ + "/" + group_ + file; }
  // Returns no file of any directory if the controller is not mounted.
  std::string V1(const char* controller, const char* file) const {
    const auto found = host_.v1.find(controller);
    if (found == host_.v1.end()) return {};
    return found->second + path_.substr(path_.rfind('/')) + "/" + group_ + file;
  }

 private:
  const Host& host_;
  const std::string& path_;
  const std::string& group_;
};

// kNotFound: there is no such file. Any other error is a fault.
Result<std::string> Read(const std::string& path) {
  auto text = sys::ReadFileAt(AT_FDCWD, path, kMetersLimit);
  // The group was removed between open and read.
  if (!text && text.error().error_number() == ENODEV) return Fail(Code::kNotFound, path);
  return text;
}

Result<uint64_t> Known(std::optional<uint64_t> number, const std::string& path,
                       const std::string& what) {
  if (!number) return Fail(Code::kInternal, path + " has no number" + what);
  return *number;
}

Result<uint64_t> Keyed(const std::string& path, const std::string& key) {
  ATOLL_ASSIGN(const std::string text, Read(path));
  return Known(KeyedNumber(text, key), path, " for " + key);
}

Result<uint64_t> Leading(const std::string& path) {
  ATOLL_ASSIGN(const std::string text, Read(path));
  return Known(LeadingNumber(text), path, "");
}

// Turns a missing file into 0. For files of later kernels and of controllers that a host may lack:
// nothing is counted there.
Result<uint64_t> IfCounted(Result<uint64_t> count) {
  if (!count && count.error().code() == Code::kNotFound) return 0;
  return count;
}

// Adds up the numbers that follow `key` in a file with a line for each disk: "8:0 rbytes=1 …" in
// v2, "8:0 Read 1" in v1. A disk without traffic has no line.
Result<uint64_t> SumOf(const std::string& path, std::string_view key) {
  ATOLL_ASSIGN(const std::string text, Read(path));
  uint64_t sum = 0;
  for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at)) {
    at += key.size();
    ATOLL_ASSIGN(const uint64_t bytes, Known(LeadingNumber(std::string_view(text).substr(at)), path,
                                             " behind '" + std::string(key) + "'"));
    sum += bytes;
  }
  return sum;
}

Result<uint64_t> MemoryInUse(const Host& host, const Place& place) {
  const std::string path =
      host.v2 ? place.Unified("/memory.stat") : place.V1("memory", "/memory.stat");
  ATOLL_ASSIGN(const std::string stat, Read(path));
  uint64_t sum = 0;
  if (!host.v2) {
    ATOLL_ASSIGN(sum, IfCounted(Leading(place.V1("memory", "/memory.kmem.usage_in_bytes"))));
  }
  using Keys = std::vector<std::string>;
  for (const std::string& key :
       host.v2 ? Keys{"anon", "shmem", "kernel"} : Keys{"total_rss", "total_shmem"}) {
    ATOLL_ASSIGN(const uint64_t bytes, Known(KeyedNumber(stat, key), path, " for " + key));
    sum += bytes;
  }
  return sum;
}

Result<GroupEvents> Events(const Host& host, const Place& place) {
  GroupEvents events;
  if (host.v2) {
    // Since Linux 6.11 a group also counts the events of its descendants. Earlier kernels count the
    // forks of its own processes, and commands fork in run/.
    ATOLL_ASSIGN(events.oom_kills, Keyed(place.Unified("/memory.events"), "oom_kill"));
    ATOLL_ASSIGN(const uint64_t own, Keyed(place.Unified("/pids.events"), "max"));
    ATOLL_ASSIGN(const uint64_t run, Keyed(place.Unified("/run/pids.events"), "max"));
    events.pids_hits = std::max(own, run);
    return events;
  }
  // v1 does not add up events of descendants.
  for (const char* below : {"", "/run"}) {
    const auto file = [&](const char* controller, const char* name) {
      return place.V1(controller, (std::string(below) + name).c_str());
    };
    ATOLL_ASSIGN(const uint64_t kills, Keyed(file("memory", "/memory.oom_control"), "oom_kill"));
    ATOLL_ASSIGN(const uint64_t hits, Keyed(file("pids", "/pids.events"), "max"));
    events.oom_kills += kills;
    events.pids_hits += hits;
  }
  return events;
}

}  // namespace

Result<Meters> ReadMeters(const Host& host, const std::string& path, const std::string& group) {
  const Place place(host, path, group);
  Meters meters;
  ATOLL_ASSIGN(meters.cpu_micros, Keyed(place.Unified("/cpu.stat"), "usage_usec"));
  ATOLL_ASSIGN(meters.memory_bytes, MemoryInUse(host, place));
  ATOLL_ASSIGN(meters.events, Events(host, place));
  const std::string peak = host.v2 ? place.Unified("/memory.peak")  // Linux 5.19
                                   : place.V1("memory", "/memory.max_usage_in_bytes");
  ATOLL_ASSIGN(meters.peak_memory_bytes, IfCounted(Leading(peak)));
  const std::string io = host.v2 ? place.Unified("/io.stat")
                                 : place.V1("blkio", "/blkio.throttle.io_service_bytes_recursive");
  ATOLL_ASSIGN(meters.read_bytes, IfCounted(SumOf(io, host.v2 ? " rbytes=" : " Read ")));
  ATOLL_ASSIGN(meters.written_bytes, IfCounted(SumOf(io, host.v2 ? " wbytes=" : " Write ")));
  return meters;
}

Result<uint64_t> ReadMemoryInUse(const Host& host, const std::string& path,
                                 const std::string& group) {
  return MemoryInUse(host, Place(host, path, group));
}

Result<GroupEvents> EventsOf(const Host& host, const std::string& path, const std::string& group) {
  return Events(host, Place(host, path, group));
}

}  // namespace atl::cgroup
