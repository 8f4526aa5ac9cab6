// Limits the number of requests in flight. Above the limit a client is told to retry, before the
// daemon reads anything of its request.
//
// A request counts until it is answered or handed on to a sandbox, so a stream that lives for hours
// takes no place from others.
//
// Thread rule: on the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/http/server.h"

namespace atl::api {

class Concurrency {
 public:
  // `limit` 0: no limit.
  Concurrency(size_t limit, http::Handler handler);

  void Handle(std::shared_ptr<http::Exchange> exchange);
  // Applies to later requests.
  void SetLimit(size_t limit) { limit_ = limit; }
  size_t in_hand() const { return *in_hand_; }
  uint64_t refused() const { return refused_; }

 private:
  size_t limit_;
  uint64_t refused_ = 0;
  http::Handler handler_;
  // Shared with each exchange that counts, because an exchange may outlive this object.
  std::shared_ptr<size_t> in_hand_ = std::make_shared<size_t>(0);
};

}  // namespace atl::api
