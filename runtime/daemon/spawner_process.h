// Finds the spawner, or starts one. It outlives the daemon: a session of its own, and nobody's
// child once we end. Should it die, the successor that it has starts another. (Under systemd the
// spawner is a unit of its own, restarted by systemd.)
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
  bool started = false;  // by us, just now
};
// As root, before there are threads. Blocks until the spawner answers or has failed, which takes
// seconds if there is one that hangs.
Result<FoundSpawner> ConnectOrStartSpawner(const Config& config);

// The start of the daemon has failed: ends the spawner that it has started. Any user that may
// connect. Blocks until it has, or the patience is at its end.
void StopStartedSpawner(const Config& config);

// For the spawner's own unit: replaces this process by the spawner. `cgroup`: the delegated group,
// as a path in the v2 hierarchy; empty: none. `trial`: it only says, by its exit status, whether it
// could serve. Only returns with an error.
Status ExecSpawner(const Config& config, const std::string& cgroup, bool trial);

}  // namespace atl::daemon
