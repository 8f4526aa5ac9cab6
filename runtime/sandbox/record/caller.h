// The client behind a request, or the daemon itself. The API makes the Caller when it authorises
// the request and passes it along. Every look-up by an id from a request requires a Caller, so no
// look-up can skip the tenant check.
#pragma once

#include <string>

namespace atl::sandbox {

struct Caller {
  std::string tenant;        // tenant whose sandboxes it sees; empty: that of a daemon with one key
  std::string key_id = {};   // name of the caller's key in the log (auth.h); empty: no key
  bool is_operator = false;  // an operator sees the sandboxes of all tenants

  // The daemon itself: background work, and the proxy to a sandbox. The proxy admits a request by
  // the sandbox's own token, without an API key.
  static const Caller& Operator() {
    static const Caller caller{.tenant = {}, .key_id = {}, .is_operator = true};
    return caller;
  }
};

}  // namespace atl::sandbox
