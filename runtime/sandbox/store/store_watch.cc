#include "runtime/sandbox/store/store_watch.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "runtime/base/log.h"

namespace atl::sandbox {
namespace {

constexpr int64_t kLookUs = 2 * 1000 * 1000;
// A trial write costs a page of the WAL, so it runs only while something is wrong, and every few
// samples.
constexpr int kLooksPerTrial = 5;
// Less free space is as good as none: an image, or a slot's directories, need more.
constexpr uint64_t kLeastBytes = 16 << 20;
constexpr uint64_t kLeastInodes = 256;
constexpr uint64_t kLeastPart = 20;
// Below these the operator is warned: sandboxes still start, and there is time to find the cause.
constexpr uint64_t kLittleBytes = uint64_t{4} << 30;
constexpr uint64_t kLittleInodes = 65'536;
constexpr uint64_t kLittlePart = 10;
constexpr char kNoRoom[] = "no room: ";

}  // namespace

std::string TroubleOf(const StoreWatch::Place& place) {
  const std::string where = "the file system of " + place.name;
  struct statvfs info {};
  if (::statvfs(place.path.c_str(), &info) != 0) {
    return where + " cannot be asked: " + SysError("statvfs").message();
  }
  struct stat file {};
  if (place.device != 0 && ::stat(place.path.c_str(), &file) == 0 && file.st_dev != place.device) {
    return where +
           " is not the one that atolld was started with: it was unmounted, or another was mounted "
           "over it. Put it back, or restart atolld and its spawner";
  }
  if ((info.f_flag & ST_RDONLY) != 0) return where + " is read-only; see the kernel's log for why";
  const uint64_t bytes = uint64_t{info.f_bavail} * info.f_frsize;
  const uint64_t all_bytes = uint64_t{info.f_blocks} * info.f_frsize;
  // A file system without a fixed number of inodes reports 0 of 0.
  const bool counts_inodes = info.f_files != 0;
  const auto below = [&](uint64_t least_bytes, uint64_t least_inodes, uint64_t part) {
    return bytes < std::min(least_bytes, all_bytes / part) ||
           (counts_inodes && info.f_favail < std::min(least_inodes, info.f_files / part));
  };
  if (!below(kLittleBytes, kLittleInodes, kLittlePart)) return {};
  const bool none = below(kLeastBytes, kLeastInodes, kLeastPart);
  return std::string(none ? kNoRoom : "little room: ") + where + " has " +
         std::to_string(bytes >> 20) + " of " + std::to_string(all_bytes >> 20) + " MiB" +
         (counts_inodes ? " and " + std::to_string(info.f_favail) + " of " +
                              std::to_string(info.f_files) + " inodes"
                        : std::string()) +
         " free" +
         (none ? "; sandboxes can be deleted, new ones may be refused until there is more" : "") +
         "; 'atoll du' shows what takes the room";
}

StoreWatch::StoreWatch(Loop& loop, Health& health, Store& store, std::vector<Place> places)
    : loop_(loop), health_(health), store_(store), places_(std::move(places)) {
  for (Place& place : places_) {
    struct stat file {};
    if (::stat(place.path.c_str(), &file) == 0) place.device = file.st_dev;
  }
}

StoreWatch::~StoreWatch() {
  loop_.Cancel(timer_);
}

void StoreWatch::Look() {
  auto trouble = std::make_shared<std::string>();
  loop_.RunBlocking(
      [places = places_, trouble] {
        for (const Place& place : places) {
          const std::string one = TroubleOf(place);
          // Usually all places are on one file system, so the first problem is enough.
          if (one.empty() || !trouble->empty()) continue;
          *trouble = one;
        }
      },
      guard_([this, trouble] { Looked(std::move(*trouble)); }));
}

void StoreWatch::Looked(std::string trouble) {
  if (troubled_ || !trouble.empty() || ++looks_ % kLooksPerTrial == 0) {
    const Status works = store_.Check();
    const bool full = !works && works.error().code() == Code::kResourceExhausted;
    if (full && trouble.empty())
      trouble = std::string(kNoRoom) + "the file system of the records is full";
    // SQLite's error message contains the path of the file, which is not public.
    if (!works && !full) {
      trouble = "the records cannot be written (errno " +
                std::to_string(works.error().error_number()) +
                "): " + (trouble.empty() ? "see the daemon's log" : trouble);
      LogLine(LogLevel::kError, "the store cannot be written").Add(works.error());
    }
  }
  troubled_ = !trouble.empty();
  if (give_room_ && trouble.starts_with(kNoRoom)) give_room_();
  health_.Set("store", std::move(trouble));
  timer_ = loop_.After(kLookUs, [this] { Look(); });
}

}  // namespace atl::sandbox
