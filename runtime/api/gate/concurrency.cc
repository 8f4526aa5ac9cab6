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
  // The handler's copies hold this one, which counts down when the last of them goes. The order of
  // the two matters: the exchange may answer, and start the connection's next request, as it goes.
  http::Exchange* const raw = exchange.get();
  handler_(std::shared_ptr<http::Exchange>(
      raw, [exchange = std::move(exchange), in_hand = in_hand_](http::Exchange*) mutable {
        --*in_hand;
        exchange.reset();
      }));
}

}  // namespace atl::api
