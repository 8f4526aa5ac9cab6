// GET /files/watch?path=…[&recursive=false]: streams changes below a directory as JSON lines
// without end. An extension. Uses inotify. Changes in a new directory before its watch exists are
// found by reading the directory.
#pragma once

#include <memory>

#include "execd/core/core.h"
#include "execd/http/exchange.h"

namespace atl::execd {

void WatchFiles(Core* core, const std::shared_ptr<Exchange>& exchange);

}  // namespace atl::execd
