// The root directory of a bucket server: a file system in memory with one program, its libraries
// and its settings.
#pragma once

#include "runtime/base/result.h"
#include "runtime/spawner/buckets/object_server.h"
#include "runtime/spawner/host/host.h"

namespace atl::spawner {

// Paths in that root.
inline constexpr char kObjectMount[] = "/mnt";  // the mount point that s3fs is told
inline constexpr char kObjectPasswords[] = "/etc/passwd-s3fs";
inline constexpr char kObjectScratch[] = "/tmp";

// Enters a mount namespace of its own and makes the root there. Call in a process in the host's
// mount namespace that has closed every descriptor of the spawner that it does not need.
Status MakeObjectRoot(const Host& host, const ObjectServerSpec& spec);

}  // namespace atl::spawner
