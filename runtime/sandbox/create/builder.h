// Builds one sandbox in a prepared slot from a plan (for the spawner) and a start message (for
// execd). Build does both at once: the start message waits in the control socket before execd has a
// root. Park builds only: execd waits for the start message that claims the sandbox.
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

// Pure functions: return what the spawner and execd get.
wire::Plan PlanOf(const Sandbox& sandbox, const netpolicy::SlotAddresses& addresses);
wire::StartMessage StartMessageOf(const Sandbox& sandbox);

struct BuiltSandbox {
  wire::Built built;
  std::unique_ptr<ControlChannel> control;
};

// A built sandbox that no create has claimed. It runs no program.
struct ParkedSandbox {
  Sandbox sandbox;  // has its id, its slot, and the fields that image and limits determine
  std::unique_ptr<ControlChannel> control;
  // Called once when its create has it (true), or is built instead, because the sandbox could not
  // take the create's limits (false). Not called if the create ends before. Empty: nobody asks.
  std::function<void(bool taken)> settled = {};
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
  // Needs a prepared slot in `sandbox.slot`; `control` is the daemon's end of its control socket.
  // An error is returned only before the spawner was asked: then the slot is unused, and `done` is
  // not called.
  Status Build(const Sandbox& sandbox, UniqueFd control, Done done);
  // Like Build, without a start message. The claim sends the message over the channel.
  Status Park(const Sandbox& sandbox, UniqueFd control, Done done);
  // Gives a parked sandbox the limits of the sandbox that claims it. kUnavailable: the spawner is
  // gone. After any other error the parked sandbox is of no use.
  void ChangeLimits(const Sandbox& claimed, std::function<void(Status)> done);

 private:
  Status Ask(const Sandbox& sandbox, std::unique_ptr<ControlChannel> channel, Done done);

  Loop& loop_;
  launch::SpawnerClient& spawner_;
  std::string socket_directory_;
  uint32_t instance_;
};

}  // namespace atl::sandbox
