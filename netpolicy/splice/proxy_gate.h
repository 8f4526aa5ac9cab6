// What the splice proxy asks about a connection. Implemented by the engine of the policies; the
// proxy knows nothing of them.
//
// Thread rule: on the loop; no call blocks, none may call back into the proxy but through `done`.
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

  // `source`: the client, as the proxy is told to name it. `name`: lower case, no dot at the end.
  // `port`: the one that the client connected to. Asked for every request of a connection.
  virtual bool Allows(std::string_view source, std::string_view name, uint16_t port) = 0;
  // Whether connections pass that carry no name, and such that may hide one (ECH), as far as the
  // visible name is allowed.
  virtual bool AllowsUnnamed(std::string_view source) = 0;
  // Of one without a name: whether it may go to the address that the client chose. The proxy
  // connects from the host, where nothing else keeps it from the host's neighbours.
  virtual bool AllowsAddress(std::string_view source, const Endpoint& original) = 0;

  // Whether the source may still be connected to `server`, one of the addresses that Resolve gave
  // or the one that the client chose: the policy may have changed since.
  virtual bool Reaches(std::string_view source, const Endpoint& server) = 0;

  // A connection, or a later request on it, was refused. `original`: where the client wanted to go.
  // `name`: as above; empty if there is none that can be told. `reason`: a static text.
  virtual void Denied(std::string_view source, const Endpoint& original, std::string_view name,
                      const char* reason) = 0;

  // The addresses of a name that `source` may reach by it at `port`, best first; none if there are
  // none. `done` is called once, unless cancelled; may be from within the call.
  virtual Id Resolve(std::string_view source, std::string_view name, uint16_t port,
                     OnResolved done) = 0;
  virtual void CancelResolve(Id id) = 0;
};

}  // namespace atl::netpolicy
