#include "runtime/sandbox/host_watch.h"

#include <fcntl.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <utility>

#include "runtime/base/sys.h"
#include "runtime/launch/spawner_client.h"

namespace atl::sandbox {
namespace {

// The spawner reads a quota for each sandbox and volume, some microseconds each.
constexpr int64_t kQuotasUs = 60'000'000;

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

// Returns avg10 of "some avg10=1.25 avg60=…" as a share (PSI).
std::optional<double> ReadPressure(const char* resource) {
  constexpr std::string_view kField = "some avg10=";
  const auto text = sys::ReadFileAt(AT_FDCWD, std::string("/proc/pressure/") + resource, 4096);
  if (!text || !text->starts_with(kField)) return std::nullopt;
  double percent = 0;
  const auto [end, error] =
      std::from_chars(text->data() + kField.size(), text->data() + text->size(), percent);
  if (error != std::errc()) return std::nullopt;
  return percent / 100;
}

std::optional<uint64_t> ReadNumber(const char* path) {
  const auto text = sys::ReadFileAt(AT_FDCWD, path, 64);
  uint64_t number = 0;
  if (!text) return std::nullopt;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
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
  for (size_t i = 0; i < sample.pressure.size(); ++i) {
    sample.pressure[i] = ReadPressure(kPressures[i]);
  }
  sample.conntrack_entries = ReadNumber("/proc/sys/net/netfilter/nf_conntrack_count");
  sample.conntrack_limit = ReadNumber("/proc/sys/net/netfilter/nf_conntrack_max");
  return sample;
}

}  // namespace

HostWatch::HostWatch(Loop& loop, const Clock& clock, launch::SpawnerClient& spawner,
                     GroupCounts& counts, Places places, ReadEvents read_events)
    : loop_(loop),
      clock_(clock),
      spawner_(spawner),
      counts_(counts),
      places_(std::move(places)),
      read_events_(std::move(read_events)) {}

void HostWatch::AskForQuotas() {
  if (clock_.BootMicros() < ask_again_us_) return;
  ask_again_us_ = clock_.BootMicros() + kQuotasUs;
  spawner_.Ask(wire::MeasureDisks(), guard_([this](const Result<wire::Disks>& measured) {
                 // Without a spawner the last sample stays.
                 if (!measured) return;
                 quotas_.reset();
                 if (!measured->counted) return;
                 quotas_.emplace().volume_bytes = measured->volume_bytes;
                 for (const wire::SlotDisk& disk : measured->disks) {
                   quotas_->upper_bytes += disk.bytes;
                 }
               }));
}

void HostWatch::Refresh() {
  AskForQuotas();
  if (std::exchange(reading_, true)) return;
  struct Reading {
    HostSample sample;
    std::unordered_map<std::string, cgroup::GroupEvents> events;
  };
  auto reading = std::make_shared<Reading>();
  loop_.RunBlocking(
      [reading, places = places_, read_events = read_events_, live = counts_.Live()] {
        reading->sample = ReadSample(places);
        for (const auto& [host_id, slot] : live) {
          // The last counts stay if these cannot be read.
          if (const auto events = read_events(slot)) reading->events[host_id] = *events;
        }
      },
      guard_([this, reading] {
        reading_ = false;
        last_ = reading->sample;
        counts_.Set(reading->events);
      }));
}

}  // namespace atl::sandbox
