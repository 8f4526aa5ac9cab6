// POST /files/upload: pairs of a "metadata" part and a "file" part, written to files as they
// arrive.
#pragma once

#include <memory>

#include "execd/core/core.h"
#include "execd/http/exchange.h"

namespace atl::execd {

// Creates and writes the files with the identity of `actor`.
void Upload(Core* core, const std::shared_ptr<Exchange>& exchange, Actor actor);

}  // namespace atl::execd
