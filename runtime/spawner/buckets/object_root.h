// The root of what serves a bucket: a file system in memory with one program, its libraries, and
// what it has to know.
#pragma once

#include "runtime/base/result.h"
#include "runtime/spawner/buckets/object_server.h"
#include "runtime/spawner/host/host.h"

namespace atl::spawner {

// In there.
inline constexpr char kObjectMount[] = "/mnt";  // what it takes for where it is mounted
inline constexpr char kObjectPasswords[] = "/etc/passwd-s3fs";
inline constexpr char kObjectScratch[] = "/tmp";

// For a process in the host's mount namespace, with all descriptors of runtime/spawner closed that
// it does not need: it gets one of its own, and the root.
Status MakeObjectRoot(const Host& host, const ObjectServerSpec& spec);

}  // namespace atl::spawner
