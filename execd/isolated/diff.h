// GET /v1/isolated/session/{id}/diff?format=list|tar: lists a session's changes of its overlays.
#pragma once

#include <memory>

#include "execd/core/core.h"
#include "execd/http/exchange.h"
#include "execd/isolated/changes.h"

namespace atl::execd {

// Answers in the forms of a sandbox's diff. `list` is {"items": [{path, kind, type, size}],
// "truncated"}. `tar` contains the added and modified files, with names relative to "/", and an
// empty file ".wh.NAME" for each deleted name. Reads with the identity of `actor`, which is that of
// the session.
void RespondSessionDiff(EventLoop* loop, const std::shared_ptr<Exchange>& exchange,
                        std::shared_ptr<const KeptOverlays> overlays, const Actor& actor);

}  // namespace atl::execd
