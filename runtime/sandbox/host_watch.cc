#include "runtime/sandbox/host_watch.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace atl::sandbox {
namespace {

uint64_t BytesIn(const std::string& directory) {
  uint64_t bytes = 0;
  std::error_code error;
  std::filesystem::recursive_directory_iterator entry(directory, error);
  for (; !error && entry != std::filesystem::recursive_directory_iterator();
       entry.increment(error)) {
    std::error_code none;
    if (!entry->is_regular_file(none)) continue;
    const uint64_t size = entry->file_size(none);
    if (!none) bytes += size;
  }
  return bytes;
}

HostSample ReadSample(const HostWatch::Places& places) {
  HostSample sample;
  struct statvfs store {};
  if (::statvfs(places.store.c_str(), &store) == 0) {
    sample.store_size_bytes = store.f_blocks * store.f_frsize;
    sample.store_free_bytes = store.f_bavail * store.f_frsize;
    sample.store_free_inodes = store.f_favail;
  }
  sample.log_bytes = BytesIn(places.state + "/logs");
  const uint64_t all = BytesIn(places.state);  // rotation or removal may delete logs meanwhile
  sample.state_bytes = all - std::min(all, sample.log_bytes);
  return sample;
}

}  // namespace

HostWatch::HostWatch(Loop& loop, GroupCounts& counts, Places places, ReadEvents read_events)
    : loop_(loop),
      counts_(counts),
      places_(std::move(places)),
      read_events_(std::move(read_events)) {}

void HostWatch::Refresh() {
  if (std::exchange(reading_, true)) return;
  struct Reading {
    HostSample sample;
    std::unordered_map<std::string, cgroup::GroupEvents> events;
  };
  auto reading = std::make_shared<Reading>();
  loop_.RunBlocking(
      [reading, places = places_, read_events = read_events_, live = counts_.Live()] {
        reading->sample = ReadSample(places);
        for (const auto& [host_id, slot] : live) reading->events[host_id] = read_events(slot);
      },
      guard_([this, reading] {
        reading_ = false;
        last_ = reading->sample;
        counts_.Set(reading->events);
      }));
}

}  // namespace atl::sandbox
