// Parts of slots with a guard, whatever wall the guard starts.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "runtime/base/result.h"
#include "runtime/spawner/root/root_steps.h"

namespace atl::spawner {

inline constexpr uint64_t kAllCapabilities = (uint64_t{1} << 41) - 1;
// Open files of execd and the programs of the sandbox, unless the request says otherwise.
inline constexpr uint64_t kUsualFiles = 16384;

// Makes a directory in the slot's tree.
Status MakeDirectory(const char* path, mode_t mode);
// Mounts the directory of the guard (wire/guard.h), which no other user of the slot enters.
Status MountGuardDirectory();

// A step of a build, after the overlay. It has mounts of its own of all that it needs. The store
// must not stay where the guard and its wall can look, because other sandboxes' files would be
// theirs by their ids there.
Status CoverStore(RootState& state);

}  // namespace atl::spawner
