// What serves one bucket to one sandbox, outside of it: s3fs, which speaks to the store and to the
// kernel, and trusts neither as little as we trust it. In a group with limits, as a user that
// nothing else on the host runs as, with a root of its own that holds itself and its libraries, and
// with no network but the relay to the operator's endpoint (runtime/objects).
//
//   relay    process 1 of their pid namespace, in the host's network; ends when s3fs ends
//     s3fs   in a network namespace that leads nowhere; has the descriptor of /dev/fuse, and the
//            credentials in a file of its own root, which is memory
//     probe  looks into the mount once, so that nobody of ours has to wait for a store
//
// None of it ends with the spawner: sandboxes do not either.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host/host.h"
#include "runtime/wire/object_store.h"

namespace atl::spawner {

// Where Debian has it.
inline constexpr char kObjectServer[] = "/usr/bin/s3fs";

struct ObjectServerSpec {
  wire::ObjectStore store;
  std::string bucket;
  std::string prefix;  // relative, without a slash at the end; empty: the whole bucket
  bool read_only = false;
  wire::ObjectCredentials credentials;
  uid_t owner = 0;      // of all files, as the kernel sees it
  uid_t user = 0;       // what runs here
  std::string group;    // made, and empty
  std::string scratch;  // directory for what it has open, its own; on the host
};

// First id of those users: one for each volume of each slot of each instance, between the store's
// ids and those of sandboxes.
uid_t ObjectServerUser(uint32_t instance, uint32_t slot, uint32_t index);

struct ObjectServer {
  pid_t pid = -1;
  UniqueFd mount;  // detached
  UniqueFd said;   // "+" once the store has shown what is in the bucket; else the end of file
  UniqueFd log;    // what s3fs says: a stranger's words in part
};

// Forks, and waits for nothing. The child's exit is the caller's to reap.
Result<ObjectServer> StartObjectServer(const Host& host, const ObjectServerSpec& spec);

}  // namespace atl::spawner
