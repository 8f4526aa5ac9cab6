// Judges requests into sandboxes on a daemon with tenants, in every form of route (ingress.h) and
// before anything else happens: a refused request wakes no sandbox and moves no deadline.
//
// The request shows its right by one of
//   - an API key, in OPEN-SANDBOX-API-KEY or as a bearer token;
//   - a token of the endpoint (endpoint_token.h), in the header in which the endpoint tells it;
//   - a signed route, for ports other than Atoll's own;
//   - a token that was told before the daemon had tenants.
// Everything that it shows must be right. A sandbox that the caller may not see gets the answer of
// an unknown id. Without any right, all ids get the same answer.
//
// Thread rule: on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/api/gate/api_error.h"
#include "runtime/api/gate/rights.h"
#include "runtime/api/ingress/endpoint_token.h"
#include "runtime/api/ingress/ingress.h"
#include "runtime/http/message.h"
#include "runtime/sandbox/state/registry.h"
#include "runtime/tenants/caller.h"
#include "runtime/tenants/identity.h"

namespace atl::api {

// The keys and tenants, as the judge needs them.
struct KeyLookup {
  // Returns the holder of a living key; nothing if there is none with that id.
  std::function<std::optional<tenants::Identity>(const std::string& key_id)> holder_of;
  std::function<bool(const std::string& tenant)> has_tenant;
  // Returns true if the text is a key, as far as the daemon knows without asking anybody.
  std::function<bool(std::string_view text)> is_key = nullptr;
};

// A request that may enter the sandbox.
struct Entry {
  tenants::Caller caller;
  const Rights* rights = nullptr;             // the row of the request, never null
  const sandbox::Sandbox* sandbox = nullptr;  // null: the caller knows no such sandbox
  std::string_view rest;                      // see Route; without the signature
  std::string_view key;                       // the API key that the request shows; empty: none
  // A key in Authorization, though it is not what admits the request. Empty: none.
  std::string_view other_key;
  // Why an admin enters the sandbox of another tenant. Empty: nobody does.
  std::string reason;
};

class ProxyJudge {
 public:
  // All are borrowed and outlive this object.
  ProxyJudge(const IngressConfig& ingress, const sandbox::Registry& registry, GuessLimit* guesses,
             KeyLookup keys);
  ProxyJudge(const ProxyJudge&) = delete;
  ProxyJudge& operator=(const ProxyJudge&) = delete;

  const EndpointTokens& tokens() const { return tokens_; }
  // Returns the API key that counts for the request. Empty: it has none, or a bearer token that is
  // meant for the server in the sandbox, because something else says who comes.
  static std::string_view KeyShown(const http::Request& request, const Route& route);
  // Refuses with 401, 403 or 429. `holder`: of the key that the request shows; if it shows none,
  // set to the holder of the endpoint's token that it shows.
  Parsed<Entry> Judge(const http::Request& request, const Route& route, int port,
                      std::optional<tenants::Identity>* holder, int64_t unix_ms) const;

 private:
  struct Shown;
  // Returns a bearer token that is a key. Clients send it to every URL, and the server in the
  // sandbox must not get it.
  std::string_view KeyBeside(const http::Request& request) const;
  Parsed<Shown> ReadTokens(const http::Request& request, std::string_view id) const;
  Parsed<tenants::Caller> Anonymous(const http::Request& request, const Route& route, int port,
                                    const Shown& shown, bool verified, int64_t unix_ms) const;
  bool HasFormerTokens(const http::Request& request, int port,
                       const sandbox::Sandbox& sandbox) const;

  const IngressConfig& ingress_;
  const sandbox::Registry& registry_;
  GuessLimit* const guesses_;
  const KeyLookup keys_;
  const EndpointTokens tokens_;
};

// Returns the authority of the caller's exchanges (http::Exchange::SetAuthority).
std::string AuthorityOf(const tenants::Caller& caller);
// Returns true as long as the authority holds: the key lives, and has the same role and tenant.
bool Stands(const std::string& authority, const KeyLookup& keys);

// Returns the target without the query parameter "reason", which is meant for the daemon.
std::string WithoutReason(std::string_view target);

}  // namespace atl::api
