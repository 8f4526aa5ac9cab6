// POST /v1/isolated/session/{id}/commit: applies a session's changes to the sandbox's directories.
#pragma once

#include <functional>
#include <memory>

#include "execd/core/core.h"
#include "execd/http/exchange.h"
#include "execd/isolated/changes.h"

namespace atl::execd {

// Applies the changes one name at a time, with the identity of `actor`, which is that of the
// session. So it writes to the sandbox's directories as a program of that user would. If that user
// may not read or write a file, the commit stops with the reason and the path. At any time each
// file has either its old or its new content. Changes that were applied stay applied; a repeated
// commit applies the rest. The commit continues if its client disconnects, and stops if its session
// ends. `settle` is called once the files are in place, and calls its argument, which answers.
using Settle = std::function<void(std::function<void()> answer)>;
void CommitSession(EventLoop* loop, const std::shared_ptr<Exchange>& exchange,
                   std::shared_ptr<KeptOverlays> overlays, Actor actor, Settle settle);

}  // namespace atl::execd
