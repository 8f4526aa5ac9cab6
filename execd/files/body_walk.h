// Request bodies that are long lists: worked through without holding up everybody else.
#pragma once

#include <functional>
#include <memory>

#include "execd/http/exchange.h"
#include "execd/http/json.h"
#include "execd/http/request_json.h"
#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"

namespace atl::execd {

// Of work a turn, for whatever takes long.
inline constexpr int64_t kSliceUs = 3000;

// Calls `check`, if there is one, and then `each` for every member of the body's root (element, if
// it is an array), a few milliseconds a turn, until one fails; then `done` with the first failure:
// `each` is called for none that has not passed `check`, nor any other member. The exchange's body
// is read here, and a malformed one answered.
using EachMember = std::function<Status(const JsonValue& member)>;
void ForEachInBody(EventLoop* loop, const std::shared_ptr<Exchange>& exchange, JsonType root,
                   EachMember check, EachMember each, std::function<void(const Status&)> done);

}  // namespace atl::execd
