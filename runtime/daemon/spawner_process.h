// Finds the spawner, or starts one, with a keeper that starts it again should it die: we cannot,
// once we are no longer root. Both outlive the daemon: a session of their own, and nobody's
// children once we end.
#pragma once

#include <memory>

#include "runtime/base/result.h"
#include "runtime/daemon/config.h"
#include "runtime/launch/spawner_client.h"

namespace atl::daemon {

// As root, before there are threads. Blocks until the spawner answers or has failed.
Result<std::unique_ptr<launch::SpawnerClient>> ConnectOrStartSpawner(const Config& config,
                                                                     wire::Reply* hello);

}  // namespace atl::daemon
