// The devices of a sandbox, such as GPUs: nodes, libraries and links, from the lines that root gave
// the spawner (wire/device.h). The plan only names devices.
//
// A node is a bind mount of the host's own, because nobody can make one in a sandbox's user
// namespace. The sandbox can open the node. It can neither chmod nor remove it: the node's owner is
// no id of the sandbox, and nothing inside may unmount. Libraries are read-only.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/spawner/host/host.h"
#include "runtime/spawner/root/volume_sources.h"
#include "runtime/wire/device.h"

namespace atl::spawner {

struct RootState;

struct DeviceMount {
  std::string target;
  VolumeSource source;
};
// All that the devices of a plan bring, each once.
struct DeviceSources {
  std::vector<DeviceMount> nodes;
  std::vector<DeviceMount> files;  // and directories
  std::vector<wire::DevicePath> links;
};

// kNotFound: the operator offers no device of one of these names.
Status CheckDevices(const Host& host, const std::vector<std::string>& names);

// Opens them. Enters the host's mount namespace for good, and may never return: call it in a
// process of its own (volume_work.h). kInternal, with the path: the host's file is missing, or is
// no character device that everybody may open. Leaves out sockets and pipes, which
// would lead to a program of the host.
Result<DeviceSources> OpenDevices(const Host& host, const std::vector<std::string>& names);

// Attaches the nodes in /dev of the root. Nothing of the image or of the client is in it yet.
Status AttachNodes(RootState& state);

}  // namespace atl::spawner
