// POST /files/upload: pairs of a "metadata" part and a "file" part, written to disk as they arrive.
#pragma once

#include <memory>

#include "execd/http/exchange.h"
#include "execd/sandbox.h"

namespace atl::execd {

void Upload(Sandbox* sandbox, const std::shared_ptr<Exchange>& exchange);

}  // namespace atl::execd
