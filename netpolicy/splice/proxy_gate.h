// The decisions that the splice proxy asks for about a connection. Implemented by the policy
// engine. The proxy knows nothing about policies.
//
// Thread rule: on the loop. No call blocks, and none may call back into the proxy except through
// `done`.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "netpolicy/address/endpoint.h"
#include "netpolicy/address/ip.h"

namespace atl::netpolicy {

class ProxyGate {
 public:
  // 0 is never a valid id.
  using Id = uint64_t;
  using OnResolved = std::function<void(std::vector<IpAddress>)>;

  virtual ~ProxyGate() = default;

  // Returns true if the policy allows the name. Asked for every request of a connection. `source`:
  // the key of the client (SpliceProxy::Config::source_of). `name`: lower case, no trailing dot.
  // `port`: the port that the client connected to.
  virtual bool Allows(std::string_view source, std::string_view name, uint16_t port) = 0;
  // Returns true if connections may pass that carry no name, or that may hide one (ECH) behind an
  // allowed name.
  virtual bool AllowsUnnamed(std::string_view source) = 0;
  // Returns true if a connection without a name may go to the address that the client chose. The
  // proxy connects from the host, so no other rule keeps it from the host's neighbours.
  virtual bool AllowsAddress(std::string_view source, const Endpoint& original) = 0;

  // Returns true if the source may still be connected to `server`, an address from Resolve or the
  // one that the client chose. The policy may have changed since.
  virtual bool Reaches(std::string_view source, const Endpoint& server) = 0;

  // Reports that a connection, or a later request on it, was refused. `original`: the address that
  // the client connected to. `name`: as in Allows; empty if it is unknown. `reason`: a static
  // string.
  virtual void Denied(std::string_view source, const Endpoint& original, std::string_view name,
                      const char* reason) = 0;

  // Resolves the addresses of `name` that `source` may reach by it at `port`, best first. The list
  // may be empty. `done` is called once unless cancelled, perhaps from within this call.
  virtual Id Resolve(std::string_view source, std::string_view name, uint16_t port,
                     OnResolved done) = 0;
  virtual void CancelResolve(Id id) = 0;
};

}  // namespace atl::netpolicy
