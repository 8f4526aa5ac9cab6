// Converts the single members of a vault's documents to the form in which they are compared.
//
// Each function takes what a client wrote and returns its normal form, or kInvalidArgument with
// what is wrong. The error begins with the text itself unless that may be secret. "Trimmed" means
// that blanks around the text are removed.
//
// Thread rule: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "netpolicy/vault/document.h"
#include "runtime/base/result.h"

namespace atl::vault {

std::string_view Trimmed(std::string_view text);
std::string LowerCase(std::string_view text);

// Name of a credential or a binding: trimmed, 1 to kMaxName bytes, without control characters,
// which would break lines of logs.
Result<std::string> NormalName(std::string_view text);

// Host pattern: trimmed, lower case, without a trailing dot. Letters, digits and '-' in at least
// two labels of 1 to 63, 253 in all, or "*." before such a name. Addresses are refused in any
// notation.
Result<std::string> NormalHost(std::string_view text);

// Method: trimmed, upper case.
Result<std::string> NormalMethod(std::string_view text);

// Path: trimmed; begins with '/', visible characters only, at most kMaxPath bytes.
Result<std::string> NormalPath(std::string_view text);

// Header name: trimmed, "x-api-key" becomes "X-Api-Key". Refuses headers that say how the request
// is to be read or carried, or who sent it: Host, Content-Length, Connection, X-Forwarded-For and
// similar ones.
Result<std::string> NormalHeaderName(std::string_view text);

// Returns true if placeholders are replaced in headers of that name: in all that NormalHeaderName
// accepts, and in Content-Type.
bool TakesSubstitutions(std::string_view header_name);

// Placeholder of a substitution: trimmed, 1 to kMaxPlaceholder bytes. Errors do not repeat the
// text.
Result<std::string> NormalPlaceholder(std::string_view text);

// Checks a secret: 1 to kMaxValue bytes, any content. Errors do not repeat the text.
Status CheckValue(std::string_view text);

}  // namespace atl::vault
