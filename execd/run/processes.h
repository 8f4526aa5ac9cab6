// GET /processes: what runs in the sandbox, for images that hold no program to tell it.
#pragma once

#include <memory>

#include "execd/core/core.h"
#include "execd/http/exchange.h"

namespace atl::execd {

void ListProcesses(Core* core, const std::shared_ptr<Exchange>& exchange);

}  // namespace atl::execd
