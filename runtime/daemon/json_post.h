// Posts a JSON document to a URL of the operator.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"
#include "runtime/http/message.h"

namespace atl::daemon {

// Returns the status of the answer. Blocks for at most `timeout_us`; call on a pool thread. `url`:
// http://, or https:// with a certificate that this host trusts. A URL without a path means the
// server's root.
Result<int> PostJson(const std::string& url, const http::Headers& headers, std::string body,
                     int64_t timeout_us);

}  // namespace atl::daemon
