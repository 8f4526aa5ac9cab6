// Finds the handler of a request. A pattern is a path of words, "{name}" for one segment, and at
// the end "{name:path}" for the rest (at least one character). The names are those of upstream's
// routes, because metrics show them.
//
// Every pattern also matches below /v1.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/api/gate/call.h"

namespace atl::api {

class Router {
 public:
  using Handle = std::function<void(Call)>;
  // kKey: the route requires the key. kKeyUnlogged: the same, but the log gets no line. kOpen: no
  // key is required (health, version, API description).
  enum class Access { kKey, kKeyUnlogged, kOpen };

  void Add(std::string method, const std::string& pattern, Handle handle,
           Access access = Access::kKey);

  struct Match {
    const Handle* handle = nullptr;  // null: no such path, or not this method
    Access access = Access::kKey;
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
    std::vector<std::string> segments;
    Handle handle;
    Access access;
  };
  std::vector<Route> routes_;
};

}  // namespace atl::api
