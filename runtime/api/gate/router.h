// Finds the handler of a request. Patterns are those of path_pattern.h, but the rest for
// "{name:path}" has at least one character. Every pattern also matches below /v1. Every route has a
// row in the table of rights (rights.h).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/api/gate/call.h"
#include "runtime/api/gate/rights.h"

namespace atl::api {

class Router {
 public:
  using Handle = std::function<void(Call)>;

  // Ends the program if the table of rights has no row for the route.
  void Add(std::string method, const std::string& pattern, Handle handle);

  struct Match {
    const Handle* handle = nullptr;  // null: no such path, or not this method
    const Rights* rights = nullptr;  // set if there is a handle
    std::vector<std::string> args;
    std::vector<std::string> other_methods;  // set if only the method is wrong
    // Pattern of the route. If only the method is wrong: of the first route for this path.
    std::string_view pattern;
  };
  // Returns the method and pattern of every route.
  std::vector<std::pair<std::string, std::string>> All() const;
  // `path` is not decoded: an encoded slash separates nothing.
  Match Find(std::string_view method, std::string_view path) const;

 private:
  struct Route {
    std::string method;
    std::string pattern;
    Handle handle;
    const Rights* rights;
  };
  std::vector<Route> routes_;
};

}  // namespace atl::api
