// Builds and starts one sandbox in a slot: listening socket, start message, plan. Build and claim
// in a row: the start message waits in the control socket before execd exists.
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
#include "runtime/launch/spawner_client.h"
#include "runtime/sandbox/control_channel.h"
#include "runtime/sandbox/sandbox.h"

namespace atl::sandbox {

// Its socket's name must fit sockaddr_un: with "/<id>.sock" behind it, 107 bytes.
inline constexpr size_t kMaxSocketDirectory = 107 - 1 - 36 - 5;
std::string SocketPath(const std::string& directory, const std::string& id);

// What goes to the spawner and to execd. Pure.
wire::Plan PlanOf(const Sandbox& sandbox, const netpolicy::SlotAddresses& addresses);
wire::StartMessage StartMessageOf(const Sandbox& sandbox, const images::ImageConfig& config);

struct BuiltSandbox {
  launch::Built built;
  std::unique_ptr<ControlChannel> control;
};

class Builder {
 public:
  // `socket_directory` belongs to the daemon's user, mode 0700.
  Builder(Loop& loop, launch::SpawnerClient& spawner, std::string socket_directory)
      : loop_(loop), spawner_(spawner), socket_directory_(std::move(socket_directory)) {}

  using Done = std::function<void(Result<BuiltSandbox>)>;
  // `sandbox.slot` is a prepared slot. An error that is returned came before the spawner was asked:
  // the slot is unused and `done` will not be called.
  Status Build(const Sandbox& sandbox, const netpolicy::SlotAddresses& addresses,
               const images::ImageConfig& config, Done done);

 private:
  Loop& loop_;
  launch::SpawnerClient& spawner_;
  std::string socket_directory_;
};

}  // namespace atl::sandbox
