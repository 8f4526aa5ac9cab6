// Ports of 127.0.0.1 that are ports of a sandbox.
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
  UniqueFd listening;  // on 127.0.0.1 only: who may reach it may reach the sandbox
  int number = 0;
  int inside = 0;  // of the sandbox
};

// Listens; `number` 0: on any free port. The error names the port.
Result<LocalPort> ListenHere(int number, int inside);

Result<Upgraded> ConnectTo(const Api& api, const ExecdWay& way, int port);

// Carries every connection to the ports, each in a thread of its own, until the loop ends.
// `failed` is told why one was not carried; it may be called by several threads at once.
Status ForwardPorts(EventLoop& loop, std::shared_ptr<const Api> api, const ExecdWay& way,
                    const std::vector<LocalPort>& ports,
                    const std::function<void(const Error&)>& failed);

}  // namespace atl::cli
