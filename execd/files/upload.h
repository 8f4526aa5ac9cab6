// POST /files/upload: pairs of a "metadata" part and a "file" part, written to disk as they arrive.
#pragma once

#include <memory>

#include "execd/http/exchange.h"
#include "execd/sandbox.h"

namespace atl::execd {

// Files are made and written by `actor`.
void Upload(Sandbox* sandbox, const std::shared_ptr<Exchange>& exchange, Actor actor);

}  // namespace atl::execd
