#include "runtime/spawner/memory/zram.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "runtime/base/sys.h"

namespace atl::spawner {
namespace {

constexpr const char* kZramControl = "/sys/class/zram-control";
constexpr int kTries = 50;
constexpr int kTryMs = 20;

}  // namespace

Status FindZram() {
  if (::access(kZramControl, F_OK) == 0) return {};
  return Fail(Code::kUnavailable, std::string("this kernel has no zram (no ") + kZramControl +
                                      "): load the module with 'modprobe zram', and at each boot "
                                      "by a line 'zram' in /etc/modules");
}

uint32_t NextZram() {
  uint32_t number = 0;
  while (::access(("/sys/block/zram" + std::to_string(number)).c_str(), F_OK) == 0) ++number;
  return number;
}

Result<uint32_t> AddZram() {
  // The read itself adds a device (zram.rst).
  ATOLL_ASSIGN(const std::string text,
               sys::ReadFileAt(AT_FDCWD, std::string(kZramControl) + "/hot_add", 16));
  uint32_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return Fail(Code::kInternal, "zram hot_add says '" + text + "'");
  return number;
}

std::string ZramPath(uint32_t number) {
  return "/dev/zram" + std::to_string(number);
}

Status SizeZram(uint32_t number, uint64_t bytes) {
  // Uses the kernel's default compression: lz4, lzo and lzo-rle took the same time, most of which
  // is not theirs.
  return sys::WriteFileAt(AT_FDCWD, "/sys/block/zram" + std::to_string(number) + "/disksize",
                          std::to_string(bytes));
}

Status RemoveZram(uint32_t number) {
  const std::string control = std::string(kZramControl) + "/hot_remove";
  for (int tries = 0;; ++tries) {
    // Fails while somebody has the device open: udev, for a moment, to see what it is.
    Status removed = sys::WriteFileAt(AT_FDCWD, control, std::to_string(number));
    const int error = removed ? 0 : removed.error().error_number();
    // ENODEV: no device has that number.
    if (error == ENODEV) return {};
    if (error != EBUSY || tries == kTries) return removed;
    ::poll(nullptr, 0, kTryMs);
  }
}

}  // namespace atl::spawner
