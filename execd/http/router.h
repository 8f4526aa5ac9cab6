// Maps methods and paths to handlers, and checks the access token before it calls a handler.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "execd/http/exchange.h"

namespace atl::execd {

// Parameter type of a handler.
using ExchangePtr = const std::shared_ptr<Exchange>&;

class Router {
 public:
  using Handler = std::function<void(ExchangePtr)>;

  // Adds a route. `pattern` is a path. A part "{}" matches one non-empty part, which becomes a
  // parameter. A last part "**" matches the rest, undecoded. `method` "*" matches every method.
  void Add(std::string_view method, std::string pattern, Handler handler);
  // Sets the access token. Empty: no check.
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
