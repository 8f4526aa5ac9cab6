// A bound on the requests that the daemon has in hand at once: past it a client is told to come
// again, before anything of its request is looked at.
//
// A request counts until it is answered, or until it is handed on to a sandbox: streams that live
// for hours take no turn from others.
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
  // `limit` 0: none.
  Concurrency(size_t limit, http::Handler handler);

  void Handle(std::shared_ptr<http::Exchange> exchange);
  // For requests from now on.
  void SetLimit(size_t limit) { limit_ = limit; }
  size_t in_hand() const { return *in_hand_; }
  uint64_t refused() const { return refused_; }

 private:
  size_t limit_;
  uint64_t refused_ = 0;
  http::Handler handler_;
  // Of this and of every exchange that counts: one may be let go of after this is gone.
  std::shared_ptr<size_t> in_hand_ = std::make_shared<size_t>(0);
};

}  // namespace atl::api
