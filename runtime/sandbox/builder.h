// Builds and starts one sandbox in a slot: start message, plan. Build and claim in a row: the start
// message waits in the control socket before execd has a root.
//
// Thread rule: on the loop.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "images/image.h"
#include "netpolicy/network.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/launch/spawner_client.h"
#include "runtime/sandbox/control_channel.h"
#include "runtime/sandbox/sandbox.h"

namespace atl::sandbox {

// What goes to the spawner and to execd. Pure.
wire::Plan PlanOf(const Sandbox& sandbox, const netpolicy::SlotAddresses& addresses);
wire::StartMessage StartMessageOf(const Sandbox& sandbox, const images::ImageConfig& config);

struct BuiltSandbox {
  launch::Built built;
  std::unique_ptr<ControlChannel> control;
};

class Builder {
 public:
  // `socket_directory`: see slot_sockets.h.
  Builder(Loop& loop, launch::SpawnerClient& spawner, std::string socket_directory)
      : loop_(loop), spawner_(spawner), socket_directory_(std::move(socket_directory)) {}

  using Done = std::function<void(Result<BuiltSandbox>)>;
  // `sandbox.slot` is a prepared slot, `control` the daemon's end of its control socket. An error
  // that is returned came before the spawner was asked: the slot is unused and `done` will not be
  // called.
  Status Build(const Sandbox& sandbox, UniqueFd control, const netpolicy::SlotAddresses& addresses,
               const images::ImageConfig& config, Done done);

 private:
  Loop& loop_;
  launch::SpawnerClient& spawner_;
  std::string socket_directory_;
};

}  // namespace atl::sandbox
