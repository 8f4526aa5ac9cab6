#include "runtime/spawner/memory/swap_device.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <optional>

#include "cgroup/keyed_number.h"
#include "runtime/base/sys.h"
#include "runtime/spawner/memory/dm_crypt.h"
#include "runtime/spawner/memory/zram.h"
#include "runtime/spawner/store/store_image.h"

namespace atl::spawner {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kUuidBytes = 16;
constexpr off_t kHeaderAt = 1024;  // behind the place of a boot sector
constexpr size_t kRecordLimit = 256;
constexpr const char* kZramPrefix = "/dev/zram";

// union swap_header of linux/swap.h, from kHeaderAt on.
struct Header {
  uint32_t version = 1;
  uint32_t last_page = 0;
  uint32_t bad_pages = 0;
  std::array<char, kUuidBytes> uuid{};
  std::array<char, 16> label{};
};

// "BOOT_ID DEVICE UUID". After a restart of the host nothing of it is left, and its names may be
// others'. The UUID is that of the swap header: a device with another UUID is not ours.
struct AreaRecord {
  std::string boot_id;
  std::string device;
  std::string uuid;
};

std::string_view NameOf(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

std::string LockPath(const std::string& run_dir) {
  return run_dir + "/spawner/swap.lock";
}

std::string RecordPath(const std::string& run_dir) {
  return run_dir + "/spawner/swap";
}

std::string DmName(uint32_t instance) {
  return "atoll" + std::to_string(instance) + "-swap";
}

Result<std::string> BootId() {
  ATOLL_ASSIGN(std::string id, sys::ReadFileAt(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 64));
  while (id.ends_with('\n')) id.pop_back();
  return id;
}

Result<std::optional<AreaRecord>> ReadRecord(const std::string& run_dir) {
  const auto text = sys::ReadFileAt(AT_FDCWD, RecordPath(run_dir), kRecordLimit);
  if (!text && text.error().code() == Code::kNotFound) return std::nullopt;
  if (!text) return Fail(text.error());
  const size_t first = text->find(' ');
  const size_t second = text->find(' ', first + 1);
  if (first == std::string::npos || second == std::string::npos) return std::nullopt;
  AreaRecord record{text->substr(0, first), text->substr(first + 1, second - first - 1),
                    text->substr(second + 1)};
  ATOLL_ASSIGN(const std::string boot_id, BootId());
  if (record.boot_id != boot_id) return std::nullopt;
  return record;
}

Status WriteRecord(const std::string& run_dir, const AreaRecord& record) {
  ATOLL_ASSIGN(const UniqueFd directory, sys::Open(run_dir + "/spawner", O_RDONLY | O_DIRECTORY));
  return sys::ReplaceFileAt(directory.get(), "swap",
                            record.boot_id + " " + record.device + " " + record.uuid, 0600);
}

Status RemoveRecordFile(const std::string& run_dir) {
  if (::unlink(RecordPath(run_dir).c_str()) != 0 && errno != ENOENT) {
    return FailSys("unlink " + RecordPath(run_dir));
  }
  return {};
}

// Parses the line of a device in /proc/swaps: "PATH TYPE SIZE USED PRIORITY", sizes in KiB. The
// path is as the process that turned it on saw it. When the mount namespace of that process has
// gone, as with a container, it is "/zram1". The last component of a device's path tells which it
// is.
Result<std::optional<SwapUse>> FindSwap(std::string_view swaps, std::string_view device) {
  while (!swaps.empty()) {
    std::string_view line = swaps.substr(0, swaps.find('\n'));
    swaps.remove_prefix(std::min(line.size() + 1, swaps.size()));
    constexpr std::string_view kDevice = "partition";  // any kind of device; else "file"
    std::array<std::string_view, 4> words;
    for (std::string_view& word : words) {
      line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
      word = line.substr(0, line.find_first_of(" \t"));
      line.remove_prefix(word.size());
    }
    if (words[1] != kDevice || NameOf(words[0]) != NameOf(device)) continue;
    const auto size = cgroup::LeadingNumber(words[2]), used = cgroup::LeadingNumber(words[3]);
    if (!size || !used) {
      return Fail(Code::kInternal, "/proc/swaps does not tell the use of " + std::string(device));
    }
    return SwapUse{.on = true, .bytes = *size * 1024, .used_bytes = *used * 1024};
  }
  return std::optional<SwapUse>();
}

Result<std::optional<SwapUse>> UseOf(const std::string& device) {
  ATOLL_ASSIGN(const std::string swaps, sys::ReadFileAt(AT_FDCWD, "/proc/swaps", 64 << 10));
  return FindSwap(swaps, device);
}

std::string NewUuid() {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char byte : sys::RandomBytes(kUuidBytes / 2)) {
    text.push_back(kDigits[static_cast<unsigned char>(byte) >> 4]);
    text.push_back(kDigits[static_cast<unsigned char>(byte) & 15]);
  }
  return text;  // used as the sixteen bytes of the UUID
}

// Writes the header of mkswap(8).
Status WriteHeader(const std::string& device, const AreaRecord& record, uint64_t bytes) {
  ATOLL_ASSIGN(const UniqueFd file, sys::Open(device, O_RDWR | O_EXCL));
  Header header;
  header.last_page = static_cast<uint32_t>(bytes / kPage - 1);
  record.uuid.copy(header.uuid.data(), header.uuid.size());
  std::string("atoll").copy(header.label.data(), header.label.size());
  std::array<char, kPage> page{};
  std::memcpy(page.data() + kHeaderAt, &header, sizeof header);
  constexpr std::string_view kMagic = "SWAPSPACE2";
  kMagic.copy(page.data() + kPage - kMagic.size(), kMagic.size());
  if (::pwrite(file.get(), page.data(), page.size(), 0) != static_cast<ssize_t>(page.size())) {
    return FailSys("write the swap header of " + device);
  }
  // The kernel reads the header past the cache of the device.
  if (::fsync(file.get()) != 0) return FailSys("fsync " + device);
  return {};
}

// Returns whether a device of our name is ours: it has our header, or none yet.
bool IsOurs(const AreaRecord& record) {
  const auto file = sys::Open(record.device, O_RDONLY);
  std::array<char, kPage> page{};
  if (!file || ::pread(file->get(), page.data(), page.size(), 0) <= 0) return true;
  const auto empty = [](char byte) { return byte == 0; };
  if (std::all_of(page.begin(), page.end(), empty)) return true;
  Header header;
  std::memcpy(&header, page.data() + kHeaderAt, sizeof header);
  return std::string_view(header.uuid.data(), header.uuid.size()) == record.uuid;
}

// Makes a file without a name. It is gone with its last user, the loop device.
Result<UniqueFd> MakeFile(const SwapPlace& place) {
  ATOLL_ASSIGN(UniqueFd file, sys::Open(place.data_dir, O_TMPFILE | O_RDWR, 0600));
  if (::fallocate(file.get(), 0, 0, static_cast<off_t>(place.bytes)) != 0) {
    return FailSys("fallocate " + std::to_string(place.bytes >> 20) + " MiB for the swap area in " +
                   place.data_dir);
  }
  return file;
}

Result<AreaRecord> MakeDevice(const SwapPlace& place, SwapKind kind) {
  AreaRecord record;
  ATOLL_ASSIGN(record.boot_id, BootId());
  record.uuid = NewUuid();
  if (kind == SwapKind::kZram) {
    // Recorded before the device exists, because the kernel gives the least free number.
    const uint32_t expected = NextZram();
    record.device = ZramPath(expected);
    ATOLL_TRY(WriteRecord(place.run_dir, record));
    ATOLL_ASSIGN(const uint32_t number, AddZram());
    if (number != expected) {
      record.device = ZramPath(number);
      ATOLL_TRY(WriteRecord(place.run_dir, record));
    }
    ATOLL_TRY(SizeZram(number, place.bytes));
    return record;
  }
  ATOLL_ASSIGN(const UniqueFd file, MakeFile(place));
  ATOLL_ASSIGN(const LoopDevice loop, AttachLoop(file.get()));
  // The device has a name that the next spawner knows, and holds loop device and file.
  ATOLL_ASSIGN(record.device, MakeDmCrypt(DmName(place.instance), loop.path, place.bytes));
  ATOLL_TRY(WriteRecord(place.run_dir, record));
  return record;
}

Status TakeDown(const SwapPlace& place, const std::optional<AreaRecord>& record) {
  if (record) {
    ATOLL_ASSIGN(const auto use, UseOf(record->device));
    if (use && IsOurs(*record) && ::swapoff(record->device.c_str()) != 0) {
      return FailSys("swapoff " + record->device);
    }
    if (record->device.starts_with(kZramPrefix) && IsOurs(*record)) {
      const auto number =
          cgroup::LeadingNumber(std::string_view(record->device).substr(strlen(kZramPrefix)));
      if (!number) return Fail(Code::kInternal, record->device + " is no zram device");
      ATOLL_TRY(RemoveZram(static_cast<uint32_t>(*number)));
    }
  }
  ATOLL_TRY(RemoveDmCrypt(DmName(place.instance)));
  return RemoveRecordFile(place.run_dir);
}

Result<UniqueFd> Lock(const std::string& run_dir) {
  ATOLL_ASSIGN(UniqueFd lock, sys::Open(LockPath(run_dir), O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  if (TEMP_FAILURE_RETRY(::flock(lock.get(), LOCK_EX)) != 0) return FailSys("flock swap.lock");
  return lock;
}

}  // namespace

Result<SwapKind> AvailableSwap(SwapKind wanted) {
  const Status crypt = wanted == SwapKind::kZram ? Status() : FindDmCrypt();
  if (wanted != SwapKind::kZram && crypt) return SwapKind::kDmCrypt;
  const Status zram = wanted == SwapKind::kDmCrypt ? Status() : FindZram();
  if (wanted != SwapKind::kDmCrypt && zram) return SwapKind::kZram;
  const std::string why = (crypt ? "" : crypt.error().message()) + (!crypt && !zram ? "; " : "") +
                          (zram ? "" : zram.error().message());
  return Fail(Code::kUnavailable, "no swap area for paused sandboxes: " + why +
                                      "; or set pause.swap_size to 0: they then keep their memory");
}

Result<SwapUse> ReadSwapUse(const std::string& run_dir) {
  ATOLL_ASSIGN(const std::optional<AreaRecord> record, ReadRecord(run_dir));
  if (!record) return SwapUse();
  ATOLL_ASSIGN(const auto use, UseOf(record->device));
  return use.value_or(SwapUse());
}

bool WasSwapTurned(const std::string& run_dir) {
  return ::access(LockPath(run_dir).c_str(), F_OK) == 0;
}

Status TurnSwapOn(const SwapPlace& place) {
  ATOLL_ASSIGN(const UniqueFd lock, Lock(place.run_dir));
  ATOLL_ASSIGN(const std::optional<AreaRecord> before, ReadRecord(place.run_dir));
  if (before) {
    ATOLL_ASSIGN(const auto use, UseOf(before->device));
    if (use && IsOurs(*before)) return {};
  }
  ATOLL_TRY(TakeDown(place, before));
  ATOLL_ASSIGN(const SwapKind kind, AvailableSwap(place.kind));
  const auto made = MakeDevice(place, kind);
  Status on = made ? WriteHeader(made->device, *made, place.bytes) : Fail(made.error());
  // Highest priority, because nobody knows whether the host's other areas can be read afterwards.
  constexpr int kFirst = SWAP_FLAG_PREFER | SWAP_FLAG_PRIO_MASK;
  if (on && ::swapon(made->device.c_str(), kFirst) != 0) on = FailSys("swapon " + made->device);
  // The device now goes with the end of its use, and loop device and file with it, whatever happens
  // to us.
  if (on && kind == SwapKind::kDmCrypt) on = RemoveDmCrypt(DmName(place.instance));
  if (on) return {};
  const auto half = ReadRecord(place.run_dir);
  [[maybe_unused]] const Status down = TakeDown(place, half ? *half : std::nullopt);
  return on;
}

Status TurnSwapOff(const SwapPlace& place) {
  ATOLL_ASSIGN(const UniqueFd lock, Lock(place.run_dir));
  ATOLL_ASSIGN(const std::optional<AreaRecord> record, ReadRecord(place.run_dir));
  return TakeDown(place, record);
}

}  // namespace atl::spawner
