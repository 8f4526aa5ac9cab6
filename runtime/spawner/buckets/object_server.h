// Serves one bucket to one sandbox, outside of the sandbox: s3fs, which speaks to the store and to
// the kernel, and which we do not trust. It runs in a cgroup with limits, as a user that runs
// nothing else on the host, in a root that holds only itself and its libraries, and without a
// network but the relay to the operator's endpoint (runtime/objects).
//
//   relay    process 1 of their pid namespace, in the host's network; ends when s3fs ends
//     s3fs   in a network namespace that leads nowhere; has the descriptor of /dev/fuse, and the
//            credentials in a file of its own root, which is memory
//     probe  looks into the mount once, so that nobody of ours has to wait for a store
//
// All of it outlives the spawner, because sandboxes do.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host/host.h"
#include "runtime/wire/object_store.h"

namespace atl::spawner {

// Debian's path.
inline constexpr char kObjectServer[] = "/usr/bin/s3fs";

struct ObjectServerSpec {
  wire::ObjectStore store;
  std::string bucket;
  std::string prefix;  // relative, without a slash at the end; empty: the whole bucket
  bool read_only = false;
  wire::ObjectCredentials credentials;
  uid_t owner = 0;      // owner of all files, as the kernel sees it
  uid_t user = 0;       // user of the server's processes
  std::string group;    // exists, and is empty
  std::string scratch;  // directory on the host for its open files; belongs to `user`
};

// Returns the user of a bucket server: one for each volume of each slot of each instance. The range
// lies between the store's ids and those of sandboxes.
uid_t ObjectServerUser(uint32_t instance, uint32_t slot, uint32_t index);

struct ObjectServer {
  pid_t pid = -1;
  UniqueFd mount;  // detached
  UniqueFd said;   // "+" once the store has shown what is in the bucket; end of file if it has not
  UniqueFd log;    // output of s3fs: partly a stranger's text
};

// Forks. Does not block. The caller reaps the child.
Result<ObjectServer> StartObjectServer(const Host& host, const ObjectServerSpec& spec);

}  // namespace atl::spawner
