// What the daemon tells others by HTTP: a document, posted to a URL of the operator's.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"
#include "runtime/http/message.h"

namespace atl::daemon {

// The status of the answer. Blocks, at most `timeout_us`: for a pool thread. `url`: http:// or
// https://, where the server must have a certificate that this host believes; without a path it is
// the server's root.
Result<int> PostJson(const std::string& url, const http::Headers& headers, std::string body,
                     int64_t timeout_us);

}  // namespace atl::daemon
