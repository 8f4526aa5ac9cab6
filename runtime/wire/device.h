// A device of the host that a sandbox may get, usually a GPU. The daemon reads its description from
// root's files (runtime/daemon/cdi.h) and gives it to the spawner in a flag:
//
//   NAME [node=HOST:/dev/PATH]… [mount=HOST:PATH]… [link=TARGET:PATH]… [env=NAME=VALUE]…
//
// The spawner parses and checks the line again. No text in it has a blank, and no path a colon.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"

namespace atl::wire {

inline constexpr size_t kMaxDevices = 64;
inline constexpr size_t kMaxDeviceParts = 256;  // nodes, mounts, links and variables of a device
inline constexpr size_t kMaxDeviceText = 2048;  // the longest path or variable
inline constexpr size_t kMaxDeviceEnv = 512;    // all variables of a device together
inline constexpr size_t kMaxDeviceLine = 96 << 10;  // the kernel's limit of an argument is 128 KiB

// A file of the host and its path in the sandbox. In a link: what it contains, and its path.
struct DevicePath {
  std::string source;
  std::string target;

  bool operator==(const DevicePath&) const = default;
};

struct Device {
  std::string name;
  std::vector<DevicePath> nodes;   // character devices; the targets are below /dev
  std::vector<DevicePath> mounts;  // files and directories, read-only
  std::vector<DevicePath> links;
  std::vector<std::string> env;  // "NAME=VALUE"

  bool operator==(const Device&) const = default;
};

// Accepts 1 to 64 characters of [A-Za-z0-9_.:-] that begin with a letter or digit.
bool ValidDeviceName(std::string_view name);

// Checks every part. kInvalidArgument names the device and the part that is wrong.
Status CheckForm(const Device& device);
std::string DeviceLine(const Device& device);
// Parses a line and checks it.
Result<Device> ParseDeviceLine(std::string_view line);
// Parses a further line and adds it. kInvalidArgument also if there are too many, or the name is
// taken.
Status AddDevice(std::string_view line, std::vector<Device>* devices);

// A device as the spawner offers it to the daemon.
struct OfferedDevice {
  std::string name;
  std::vector<std::string> env;

  bool operator==(const OfferedDevice&) const = default;
  template <typename Self, typename Io>
  static void Fields(Self& self, Io& io) {
    io(self.name);
    io.List(self.env, kMaxDeviceParts);
  }
};

}  // namespace atl::wire
