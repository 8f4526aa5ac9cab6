// Finds the spawner, or starts one. The spawner outlives the daemon: it has a session of its own.
// If it dies, the successor that it has prepared starts another. Under systemd the spawner is a
// unit of its own, which systemd restarts.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/result.h"
#include "runtime/daemon/config.h"
#include "runtime/launch/spawner_client.h"

namespace atl::daemon {

struct FoundSpawner {
  std::unique_ptr<launch::SpawnerClient> client;
  wire::Greeting hello;
  bool started = false;  // started by this call
};
// Call as root, before there are threads. Blocks until the spawner answers or has failed, which
// takes seconds if it hangs.
Result<FoundSpawner> ConnectOrStartSpawner(const Config& config);

// Stops the spawner that a failed start of the daemon has started. Works for any user that may
// connect. Blocks until the spawner has exited, or a timeout.
void StopStartedSpawner(const Config& config);

// Replaces this process by the spawner, for the spawner's own unit. `cgroup`: the delegated group,
// as a path in the v2 hierarchy; empty: none. `trial`: the spawner only reports by its exit status
// whether it could serve. Only returns with an error.
Status ExecSpawner(const Config& config, const std::string& cgroup, bool trial);

}  // namespace atl::daemon
