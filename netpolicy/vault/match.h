// Which binding a request belongs to.
//
// An exact host goes before a wildcard, whatever the paths; Check leaves no two bindings between
// which that does not decide. A path ends in '*' for everything that begins with the rest, and is
// otherwise the whole path; both are compared as bytes. A path that servers could read as another
// is refused if a binding takes it, so that no credential goes where it was not meant to.
//
// Thread rule: pure functions.
#pragma once

#include <string_view>

#include "netpolicy/vault/document.h"

namespace atl::vault {

// `host`: lower case, no dot at the end, no port. `pattern` is one of a Match. A wildcard fits the
// names below its own, at any depth, and not that itself.
bool FitsHost(std::string_view pattern, std::string_view host);

// Whether one of the binding's hosts fits. A proxy asks this about the name to which the server's
// certificate is held, too: the Host header alone is what the sandbox says.
bool TakesHost(const Binding& binding, std::string_view host);

// Whether any binding could take a request of that scheme to that host. If not, its connections
// need not be intercepted.
bool Covers(const Vault& vault, Scheme scheme, std::string_view host);

// Whether one request could fit both, and neither has the more exact host for it.
bool Overlap(const Match& one, const Match& other);

struct Choice {
  enum class Kind {
    kNone,           // of no binding: forward it as it is
    kOne,            // of `binding`
    kAmbiguous,      // of two bindings: answer 403 with kAmbiguousBinding
    kAmbiguousPath,  // answer 403 with kAmbiguousPathText
  };
  Kind kind = Kind::kNone;
  const Binding* binding = nullptr;  // the vault's
};

// What the sandbox is told, as text/plain.
inline constexpr char kAmbiguousBinding[] = "credential binding ambiguous\n";
inline constexpr char kAmbiguousPathText[] = "request path contains ambiguous segments\n";

// `method` as it came; `path`: the target's part before '?', not decoded; empty means "/".
Choice Choose(const Vault& vault, Scheme scheme, std::string_view host, std::string_view method,
              std::string_view path);

}  // namespace atl::vault
