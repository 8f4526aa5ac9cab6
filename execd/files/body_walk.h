// Processes request bodies that are long lists, without delaying other requests.
#pragma once

#include <functional>
#include <memory>

#include "execd/http/exchange.h"
#include "execd/http/json.h"
#include "execd/http/request_json.h"
#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"

namespace atl::execd {

// Time that long work may take in one turn of the event loop.
inline constexpr int64_t kSliceUs = 3000;

// Reads the exchange's body, whose root is an object or an array, and answers the exchange if the
// body is malformed. Calls `check`, if set, for every member (or element), then `each` for every
// member, a few milliseconds in each turn of the loop. Stops at the first failure. If any `check`
// fails, `each` is never called. Finally calls `done` with the first failure or OK.
using EachMember = std::function<Status(const JsonValue& member)>;
void ForEachInBody(EventLoop* loop, const std::shared_ptr<Exchange>& exchange, JsonType root,
                   EachMember check, EachMember each, std::function<void(const Status&)> done);

}  // namespace atl::execd
