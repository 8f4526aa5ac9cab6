// The resolvers that the forwarder asks: the configured ones, or the host's own, which are read
// again whenever its resolv.conf changes.
//
// Thread rule: on the loop.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <vector>

#include "netpolicy/address/endpoint.h"
#include "runtime/base/result.h"

namespace atl::netpolicy {

class DnsUpstreams {
 public:
  // If `configured` is empty, the resolvers come from `resolv_conf`. `own`: addresses that this
  // name server listens on. They are never asked, because the query would loop.
  static Result<DnsUpstreams> Make(const std::vector<std::string>& configured,
                                   std::string resolv_conf, std::vector<Endpoint> own);

  // The resolvers in the order to try. May be empty. Valid until the next call.
  const std::vector<Endpoint>& Current();

  // Moves `failed`, which did not answer, to the end of the order.
  void Demote(const Endpoint& failed);

 private:
  DnsUpstreams() = default;
  void Reread();
  void Keep(const std::vector<Endpoint>& list);

  std::string resolv_conf_;  // empty: the resolvers are configured
  std::vector<Endpoint> own_;
  std::vector<Endpoint> current_;
  struct stat seen_ {};
};

// Parses the "nameserver" lines of a resolv.conf, at most 8. Lines that do not parse are skipped.
std::vector<Endpoint> ParseResolvConf(std::string_view text);

}  // namespace atl::netpolicy
