// Forwards ports of 127.0.0.1 to ports of a sandbox.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/client/sandbox_list.h"
#include "tools/atoll/client/upgrade.h"

namespace atl::cli {

struct LocalPort {
  UniqueFd listening;  // only 127.0.0.1, because its clients reach the sandbox
  int number = 0;
  int inside = 0;  // port in the sandbox
};

// Listens on `number`; 0: on any free port. The error names the port.
Result<LocalPort> ListenHere(int number, int inside);

Result<Upgraded> ConnectTo(const Api& api, const ExecdWay& way, int port);

// The sandbox that connections are forwarded to. Threads share it.
struct ForwardTarget {
  Api api;
  ExecdWay way;
};
// Forwards all connections to the ports, each in its own thread, until the loop ends. `target`
// returns the sandbox for a new connection, on the loop. `failed` gets the reason if a connection
// cannot be forwarded; several threads may call it at once.
Status ForwardPorts(EventLoop& loop,
                    const std::function<std::shared_ptr<const ForwardTarget>()>& target,
                    const std::vector<LocalPort>& ports,
                    const std::function<void(const Error&)>& failed);

}  // namespace atl::cli
