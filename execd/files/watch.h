// GET /files/watch?path=…[&recursive=false]: changes beneath a directory as an endless stream of
// JSON lines, an extension. By inotify; what was changed while a new directory was being added is
// found by looking into it.
#pragma once

#include <memory>

#include "execd/core/core.h"
#include "execd/http/exchange.h"

namespace atl::execd {

void WatchFiles(Core* core, const std::shared_ptr<Exchange>& exchange);

}  // namespace atl::execd
