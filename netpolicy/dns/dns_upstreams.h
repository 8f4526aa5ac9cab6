// The resolvers that the forwarder asks: those of the configuration, or the host's own, read again
// whenever its resolv.conf changes.
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
  // `configured` empty: those of `resolv_conf`. `own` are the addresses that we listen on
  // ourselves: never asked, a query would go round.
  static Result<DnsUpstreams> Make(const std::vector<std::string>& configured,
                                   std::string resolv_conf, std::vector<Endpoint> own);

  // In the order to be tried; may be empty. Valid until the next call.
  const std::vector<Endpoint>& Current();

  // `failed` did not answer: the others are asked first from now on.
  void Demote(const Endpoint& failed);

 private:
  DnsUpstreams() = default;
  void Reread();
  void Keep(const std::vector<Endpoint>& list);

  std::string resolv_conf_;  // empty: configured
  std::vector<Endpoint> own_;
  std::vector<Endpoint> current_;
  struct stat seen_ {};
};

// The "nameserver" lines of a resolv.conf, at most 8; whatever does not parse is left out.
std::vector<Endpoint> ParseResolvConf(std::string_view text);

}  // namespace atl::netpolicy
