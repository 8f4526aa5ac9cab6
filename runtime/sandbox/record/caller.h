// The client behind a request, or the daemon itself. It is made where the request is authorised and
// carried with it. Every look-up of an id that a request names needs one, so none can forget it.
#pragma once

#include <string>

namespace atl::sandbox {

struct Caller {
  std::string tenant;        // whose sandboxes it sees; empty: those of a daemon with one key
  std::string key_id = {};   // the name of its key in the log (auth.h); empty: it has none
  bool is_operator = false;  // it sees the sandboxes of all tenants

  // The daemon itself: background work, and ways into a sandbox, where the sandbox's own token
  // admits a request and no key does.
  static const Caller& Operator() {
    static const Caller caller{.tenant = {}, .key_id = {}, .is_operator = true};
    return caller;
  }
};

}  // namespace atl::sandbox
