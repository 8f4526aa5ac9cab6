// Finds the spawner, or starts one. It outlives the daemon: a session of its own, and nobody's
// child once we end. Should it die, the next start of the daemon starts another: by then we are no
// longer root. (Under systemd the spawner is a unit of its own, restarted by systemd.)
#pragma once

#include <memory>
#include <string>

#include "runtime/base/result.h"
#include "runtime/daemon/config.h"
#include "runtime/launch/spawner_client.h"

namespace atl::daemon {

// As root, before there are threads. Blocks until the spawner answers or has failed.
Result<std::unique_ptr<launch::SpawnerClient>> ConnectOrStartSpawner(const Config& config,
                                                                     wire::Reply* hello);

// For the spawner's own unit: replaces this process by the spawner. `cgroup`: the delegated group,
// as a path in the v2 hierarchy; empty: none. Only returns with an error.
Status ExecSpawner(const Config& config, const std::string& cgroup);

}  // namespace atl::daemon
