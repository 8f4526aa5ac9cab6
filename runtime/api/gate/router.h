// Which handler a request goes to. Patterns are paths whose segments are words, "{name}" for one
// segment, or a last "{name:path}" for everything that follows (at least one character). The names
// are those of upstream's routes: metrics tell them.
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
  // kKeyUnlogged: the log has no line for it. kOpen, without a key: health, version, the
  // description.
  enum class Access { kKey, kKeyUnlogged, kOpen };

  void Add(std::string method, const std::string& pattern, Handle handle,
           Access access = Access::kKey);

  struct Match {
    const Handle* handle = nullptr;  // null: no such path, or not with this method
    Access access = Access::kKey;
    std::vector<std::string> args;
    std::vector<std::string> other_methods;  // if only the method is wrong
    // Of the route, or if only the method is wrong, of the first one for this path.
    std::string_view pattern;
  };
  // Every route: its method and its pattern.
  std::vector<std::pair<std::string, std::string>> All() const;
  // `path` as it came, not decoded: an encoded slash is no separator.
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
