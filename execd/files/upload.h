// POST /files/upload: pairs of a "metadata" part and a "file" part, written to disk as they arrive.
#pragma once

#include <memory>

#include "execd/core/core.h"
#include "execd/http/exchange.h"

namespace atl::execd {

// Files are made and written by `actor`.
void Upload(Core* core, const std::shared_ptr<Exchange>& exchange, Actor actor);

}  // namespace atl::execd
