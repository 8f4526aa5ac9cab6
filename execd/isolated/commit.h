// POST /v1/isolated/session/{id}/commit: what a session has changed of its overlays becomes the
// sandbox's.
#pragma once

#include <memory>

#include "execd/core/core.h"
#include "execd/http/exchange.h"
#include "execd/isolated/changes.h"

namespace atl::execd {

// Name by name, as `actor`, whom the session runs as: so the sandbox's directories are written to
// as a program of that user's would, and what it may not read or write ends the commit, with the
// reason and the path. Each file is there as it was before or as the session has it, whatever
// happens. What has been done stays done; a commit that is asked for again does the rest. It goes
// on without its client, and ends with its session.
void CommitSession(EventLoop* loop, const std::shared_ptr<Exchange>& exchange,
                   std::shared_ptr<KeptOverlays> overlays, Actor actor);

}  // namespace atl::execd
