// Feeds hostile bytes to the reader of device descriptions and to the spawner's reader of device
// lines. What the first accepts, the second reads again as the same device, and nothing accepted
// leads out of /dev or to a path that is not plain.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/daemon/cdi.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace atl;  // NOLINT(google-build-using-namespace): one function
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto check = [](const wire::Device& device) {
    ATOLL_CHECK(wire::CheckForm(device).has_value());
    for (const wire::DevicePath& node : device.nodes) {
      ATOLL_CHECK(node.target.starts_with("/dev/"));
      ATOLL_CHECK((node.target + "/").find("/../") == std::string::npos);
    }
  };
  if (const auto device = wire::ParseDeviceLine(text)) {
    check(*device);
    ATOLL_CHECK(*wire::ParseDeviceLine(wire::DeviceLine(*device)) == *device);
  }
  const auto devices = daemon::ParseCdi(text, "fake.example/gpu", "f");
  if (!devices) return 0;
  for (const wire::Device& device : *devices) {
    check(device);
    const auto again = wire::ParseDeviceLine(wire::DeviceLine(device));
    ATOLL_CHECK(again && *again == device);
  }
  return 0;
}
