// The splice proxy's gate. Policies come from the enforcer, addresses from the name server.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <string_view>

#include "netpolicy/dns/dns_forwarder.h"
#include "netpolicy/rules/enforcer.h"
#include "netpolicy/splice/proxy_gate.h"

namespace atl::netpolicy {

class ProxyJudge final : public ProxyGate {
 public:
  // Both are borrowed.
  ProxyJudge(Enforcer& enforcer, DnsForwarder& names, bool allow_unnamed)
      : enforcer_(enforcer), names_(names), allow_unnamed_(allow_unnamed) {}
  ProxyJudge(const ProxyJudge&) = delete;
  ProxyJudge& operator=(const ProxyJudge&) = delete;

  bool Allows(std::string_view source, std::string_view name, uint16_t port) override;
  bool AllowsUnnamed(std::string_view) override { return allow_unnamed_; }
  bool AllowsAddress(std::string_view source, const Endpoint& original) override;
  bool Reaches(std::string_view source, const Endpoint& server) override;
  void Denied(std::string_view source, const Endpoint& original, std::string_view name,
              const char* reason) override;
  Id Resolve(std::string_view source, std::string_view name, uint16_t port,
             OnResolved done) override;
  void CancelResolve(Id id) override;

 private:
  Enforcer& enforcer_;
  DnsForwarder& names_;
  const bool allow_unnamed_;
};

}  // namespace atl::netpolicy
