// Which handler answers which method and path, and the access token in front of all of them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "execd/http/exchange.h"

namespace atl::execd {

// How a handler gets what it answers.
using ExchangePtr = const std::shared_ptr<Exchange>&;

class Router {
 public:
  using Handler = std::function<void(ExchangePtr)>;

  // `pattern` is a path whose parts may be "{}" (one part, not empty, becomes a parameter) and
  // whose last may be "**" (the rest, undecoded by us). `method` "*" is any.
  void Add(std::string_view method, std::string pattern, Handler handler);
  // Empty: no check.
  void RequireToken(std::string token) { token_ = std::move(token); }

  void Handle(const std::shared_ptr<Exchange>& exchange) const;

 private:
  struct Route {
    std::string_view method;  // a literal
    std::string pattern;
    Handler handler;
  };
  const Route* Find(std::string_view method, std::string_view path,
                    std::vector<std::string>* parameters) const;
  bool Authorized(const Exchange& exchange) const;

  std::vector<Route> routes_;
  std::string token_;
};

}  // namespace atl::execd
