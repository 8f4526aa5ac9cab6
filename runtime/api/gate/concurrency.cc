#include "runtime/api/gate/concurrency.h"

#include <string>
#include <utility>
#include <vector>

#include "runtime/api/gate/call.h"

namespace atl::api {

Concurrency::Concurrency(size_t limit, http::Handler handler)
    : limit_(limit), handler_(std::move(handler)) {}

void Concurrency::Handle(std::shared_ptr<http::Exchange> exchange) {
  if (limit_ != 0 && *in_hand_ >= limit_) {
    ++refused_;
    static const std::vector<std::string> kNoDirectories;
    return Call(std::move(exchange), kNoDirectories)
        .Respond(ApiError{503, "GENERAL::OVERLOADED",
                          "the server has " + std::to_string(*in_hand_) +
                              " requests in hand (server.limit_concurrency): come again later",
                          1});
  }
  ++*in_hand_;
  // All copies of the handler's pointer share this deleter, which runs when the last copy is
  // released. It decrements before it resets, because releasing the exchange may send the answer
  // and start the connection's next request.
  http::Exchange* const raw = exchange.get();
  handler_(std::shared_ptr<http::Exchange>(
      raw, [exchange = std::move(exchange), in_hand = in_hand_](http::Exchange*) mutable {
        --*in_hand;
        exchange.reset();
      }));
}

}  // namespace atl::api
