// Devices as their vendor's tool describes them: the Container Device Interface, in JSON.
//
//   nvidia-ctk cdi generate --format=json --output=/etc/cdi/nvidia.json
//
// The files decide what of the host a sandbox sees, so only root may be able to write them. A file
// is read strictly: a version, field or hook that is not known here is an error, because a device
// without it might not work, or might not be as confined as its vendor meant it to be.
//
// Hooks are the vendor's programs, which a container runtime runs as root among the container's
// mounts. Atoll runs none. It does itself what the known ones do: create-symlinks makes links,
// update-ldcache becomes LD_LIBRARY_PATH, and chmod and disable-device-node-modification have
// nothing left to do in a sandbox, which can neither make nor change a node.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/wire/device.h"

namespace atl::daemon {

inline constexpr size_t kMaxCdiFile = 1 << 20;

// Parses one file. Returns its devices if its kind is `kind`, none if it is another kind. Pure.
// `file` names the file in errors.
Result<std::vector<wire::Device>> ParseCdi(std::string_view text, const std::string& kind,
                                           const std::string& file);

// Returns the kind of the devices of a file. Pure.
Result<std::string> KindOf(std::string_view text, const std::string& file);

// Reads the JSON files of the directories; a later directory's device replaces one of the same
// name. Leaves out `all`, and further names of a device that is there already, since each device
// is counted once. A directory that does not exist is empty. kFailedPrecondition: somebody other
// than root can write a file or a directory. Call as root.
Result<std::vector<wire::Device>> ReadCdi(const std::vector<std::string>& directories,
                                          const std::string& kind);

}  // namespace atl::daemon
