// Puts credentials into a request for which Choose (match.h) has found a binding.
//
// First, placeholders are replaced where the binding says so: literally, with regard to case, and
// once; the inserted value is not searched again. In the path and the query the value is
// URL-encoded, in headers it is inserted as it is. Hop-by-hop headers, Host, Content-Length and
// forwarding headers are not changed. Then the binding's headers are set and replace those of the
// same names. In a body, which may be read only after its head was sent, the value is escaped for
// the content's type.
//
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "netpolicy/vault/document.h"
#include "runtime/base/result.h"
#include "runtime/http/message.h"

namespace atl::vault {

// Largest head and body after placeholders are replaced; a value may be longer than its
// placeholder.
inline constexpr size_t kMaxRewrittenHead = 128 << 10;
inline constexpr size_t kMaxRewrittenBody = 8 << 20;
// Largest body that is held and rewritten. A longer one is forwarded unchanged, with its
// placeholders.
inline constexpr size_t kMaxHeldBody = 1 << 20;

// Body of the 403 answer to the sandbox if Rewrite returns kPermissionDenied, text/plain.
inline constexpr char kAmbiguousSubstitution[] =
    "request path contains ambiguous substituted segments\n";

// The result of Rewrite, for logs. It has no values.
struct Applied {
  std::vector<std::string> headers;  // names of the headers that were set
  bool path = false;                 // a placeholder was replaced there
  bool query = false;
  bool header = false;
};

// Rewrites `target` and `headers` of `request`. `binding` must be one of `vault`. The caller must
// remove hop-by-hop headers first; otherwise a sandbox could list Authorization in Connection and
// have it removed again. After an error the request must not be sent. kPermissionDenied: the new
// path could be read as another path, for instance because a value has a '/'; answer 403.
// kResourceExhausted: longer than kMaxRewrittenHead. kInternal: `vault` has not passed Check.
Result<Applied> Rewrite(const Vault& vault, const Binding& binding, http::Request& request);

// Returns true if a body under these headers must be held and rewritten: the binding replaces in
// bodies, and this one is neither compressed nor multipart.
bool SubstitutesBody(const Binding& binding, const http::Headers& headers);

// Returns the new body; the caller sets its Content-Length. Empty if the body stays unchanged,
// because it has no placeholder or is not UTF-8. Call only if SubstitutesBody. Values are
// form-encoded in application/x-www-form-urlencoded, escaped for a string in application/json and
// …+json, and inserted as they are elsewhere. kResourceExhausted: longer than kMaxRewrittenBody.
// kInternal: as above.
Result<std::optional<std::string>> RewriteBody(const Vault& vault, const Binding& binding,
                                               const http::Headers& headers, std::string_view body);

}  // namespace atl::vault
