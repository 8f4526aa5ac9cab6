// GET /v1/isolated/session/{id}/diff?format=list|tar: what a session has changed of its overlays.
#pragma once

#include <memory>

#include "execd/core/core.h"
#include "execd/http/exchange.h"
#include "execd/isolated/changes.h"

namespace atl::execd {

// The forms are those of a sandbox's own diff: {"items": [{path, kind, type, size}], "truncated"},
// and a tar of what is there now, with names from "/", in which an empty file ".wh.NAME" stands for
// what is deleted. `actor` is whom the session runs as, and reads no more than it may.
void RespondSessionDiff(EventLoop* loop, const std::shared_ptr<Exchange>& exchange,
                        std::shared_ptr<const KeptOverlays> overlays, const Actor& actor);

}  // namespace atl::execd
