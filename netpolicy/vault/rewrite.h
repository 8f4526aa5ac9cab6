// Puts credentials into a request that Choose (match.h) has given to a binding.
//
// First placeholders are replaced where the binding says so, literally, with regard to case, and
// once: what has been put in is not looked at again. In the path and the query the value is URL
// encoded, in headers it stands as it is; hop-by-hop headers, Host, Content-Length and those about
// forwarding are left alone. Then the binding's headers are set, in place of what the request has
// under their names. In a body, which may be read only after its head is gone, the value is
// written as the content's type asks for.
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

// What placeholders may make of a head and of a body: a value is longer than its placeholder.
inline constexpr size_t kMaxRewrittenHead = 128 << 10;
inline constexpr size_t kMaxRewrittenBody = 8 << 20;
// A body that is longer, or turns out to be, is forwarded as it comes, with its placeholders.
inline constexpr size_t kMaxHeldBody = 1 << 20;

// What the sandbox is told with a 403 when Rewrite says kPermissionDenied, as text/plain.
inline constexpr char kAmbiguousSubstitution[] =
    "request path contains ambiguous substituted segments\n";

// What was done, for a log: no values.
struct Applied {
  std::vector<std::string> headers;  // the names of those that were set
  bool path = false;                 // a placeholder was replaced there
  bool query = false;
  bool header = false;
};

// Rewrites `target` and `headers` of `request`. `binding` is the vault's. Take hop-by-hop headers
// off before: a sandbox that lists Authorization in Connection would have it taken off again.
// With an error the request is in no state to be sent. kPermissionDenied: the new path could be
// read as another one, such as when a value has a '/'; answer 403. kResourceExhausted: longer than
// kMaxRewrittenHead. kInternal: `vault` has not passed Check.
Result<Applied> Rewrite(const Vault& vault, const Binding& binding, http::Request& request);

// Whether a body under these headers has to be held and rewritten: the binding looks into bodies,
// and this one is neither compressed nor multipart.
bool SubstitutesBody(const Binding& binding, const http::Headers& headers);

// The new body, whose length the caller has to say in Content-Length; nothing if the body stays as
// it is, because it has no placeholder or is not UTF-8. Only if SubstitutesBody. In
// application/x-www-form-urlencoded values are form encoded, in application/json and …+json they
// are escaped for a string, in all else they stand as they are. kResourceExhausted: longer than
// kMaxRewrittenBody. kInternal as above.
Result<std::optional<std::string>> RewriteBody(const Vault& vault, const Binding& binding,
                                               const http::Headers& headers, std::string_view body);

}  // namespace atl::vault
