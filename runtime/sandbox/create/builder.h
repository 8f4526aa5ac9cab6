// Builds and starts one sandbox in a slot: start message, plan. Build and claim in a row: the start
// message waits in the control socket before execd has a root. Or it is built only, and parked: its
// execd waits for the start message that claims it.
//
// Thread rule: on the loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "netpolicy/network.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/sandbox/create/control_channel.h"
#include "runtime/sandbox/record/sandbox.h"
#include "runtime/wire/reply.h"

namespace atl::launch {
class SpawnerClient;
}
namespace atl::wire {
struct Plan;
}

namespace atl::sandbox {

// What goes to the spawner and to execd. Pure.
wire::Plan PlanOf(const Sandbox& sandbox, const netpolicy::SlotAddresses& addresses);
wire::StartMessage StartMessageOf(const Sandbox& sandbox);

struct BuiltSandbox {
  wire::Built built;
  std::unique_ptr<ControlChannel> control;
};

// One that nobody has claimed: nothing of its own runs in it.
struct ParkedSandbox {
  Sandbox sandbox;  // id, slot, and what image and limits decide
  std::unique_ptr<ControlChannel> control;
};

class Builder {
 public:
  // `socket_directory`: see slot_sockets.h.
  Builder(Loop& loop, launch::SpawnerClient& spawner, std::string socket_directory,
          uint32_t instance)
      : loop_(loop),
        spawner_(spawner),
        socket_directory_(std::move(socket_directory)),
        instance_(instance) {}

  using Done = std::function<void(Result<BuiltSandbox>)>;
  // `sandbox.slot` is a prepared slot, `control` the daemon's end of its control socket. An error
  // that is returned came before the spawner was asked: the slot is unused and `done` will not be
  // called.
  Status Build(const Sandbox& sandbox, UniqueFd control, Done done);
  // The same without a start message: whoever claims it sends that over the channel.
  Status Park(const Sandbox& sandbox, UniqueFd control, Done done);

 private:
  Status Ask(const Sandbox& sandbox, std::unique_ptr<ControlChannel> channel, Done done);

  Loop& loop_;
  launch::SpawnerClient& spawner_;
  std::string socket_directory_;
  uint32_t instance_;
};

}  // namespace atl::sandbox
