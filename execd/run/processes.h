// GET /processes: lists the processes in the sandbox, for images without ps.
#pragma once

#include <memory>

#include "execd/core/core.h"
#include "execd/http/exchange.h"

namespace atl::execd {

void ListProcesses(Core* core, const std::shared_ptr<Exchange>& exchange);

}  // namespace atl::execd
