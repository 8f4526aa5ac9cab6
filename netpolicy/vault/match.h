// Decides which binding a request belongs to.
//
// An exact host takes precedence over a wildcard, whatever the paths. Check refuses vaults in which
// this does not decide between two bindings. A path that ends in '*' matches everything that begins
// with the rest; any other path matches only itself. Both are compared as bytes. A path that
// servers could read as another path is refused if a binding takes it, so that no credential goes
// to an unintended place.
//
// Thread rule: pure functions.
#pragma once

#include <string_view>

#include "netpolicy/vault/document.h"

namespace atl::vault {

// Returns true if the pattern of a Match matches `host` (lower case, no trailing dot, no port). A
// wildcard matches names below its own at any depth, but not the name itself.
bool FitsHost(std::string_view pattern, std::string_view host);

// Returns true if one of the binding's hosts matches. The proxy also asks this about the name that
// the server's certificate is checked against, because the Host header alone is only a claim of the
// sandbox.
bool TakesHost(const Binding& binding, std::string_view host);

// Returns true if any binding could take a request of that scheme to that host. If not, its
// connections need not be intercepted.
bool Covers(const Vault& vault, Scheme scheme, std::string_view host);

// Returns true if one request could match both, and neither has the more exact host for it.
bool Overlap(const Match& one, const Match& other);

struct Choice {
  enum class Kind {
    kNone,           // no binding takes it: forward the request unchanged
    kOne,            // `binding` takes it
    kAmbiguous,      // two bindings take it: answer 403 with kAmbiguousBinding
    kAmbiguousPath,  // answer 403 with kAmbiguousPathText
  };
  Kind kind = Kind::kNone;
  const Binding* binding = nullptr;  // points into the vault
};

// Bodies of the 403 answers to the sandbox, text/plain.
inline constexpr char kAmbiguousBinding[] = "credential binding ambiguous\n";
inline constexpr char kAmbiguousPathText[] = "request path contains ambiguous segments\n";

// Chooses the binding of a request. `method`: as received. `path`: the target up to '?', not
// decoded; empty means "/".
Choice Choose(const Vault& vault, Scheme scheme, std::string_view host, std::string_view method,
              std::string_view path);

}  // namespace atl::vault
