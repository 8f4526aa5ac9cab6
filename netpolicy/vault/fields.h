// The single members of a vault's documents, in the form in which they are compared.
//
// Each function takes what a client wrote and returns its normal form, or kInvalidArgument with
// what is wrong with it, beginning with the text itself where that is no secret. Blanks around a
// text are taken off (Trimmed) where that is said.
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

// Of a credential or a binding: trimmed, 1 to kMaxName bytes, no control characters, which would
// break lines of logs.
Result<std::string> NormalName(std::string_view text);

// Trimmed, lower case, without the one dot at the end; of letters, digits and '-' in at least two
// labels of 1 to 63, 253 in all, or "*." before such a name. No address, in whatever notation.
Result<std::string> NormalHost(std::string_view text);

// Trimmed, upper case.
Result<std::string> NormalMethod(std::string_view text);

// Trimmed; begins with '/', visible characters only, at most kMaxPath.
Result<std::string> NormalPath(std::string_view text);

// Trimmed, "x-api-key" as "X-Api-Key". Not one that says how the request is to be read or carried,
// or who has sent it: Host, Content-Length, Connection, X-Forwarded-For and the like.
Result<std::string> NormalHeaderName(std::string_view text);

// Whether a placeholder is looked for in a header of that name: in none of those that
// NormalHeaderName refuses, but in Content-Type.
bool TakesSubstitutions(std::string_view header_name);

// Of a substitution: trimmed, 1 to kMaxPlaceholder bytes. The text is in no error.
Result<std::string> NormalPlaceholder(std::string_view text);

// 1 to kMaxValue bytes, as it stands. The text is in no error.
Status CheckValue(std::string_view text);

}  // namespace atl::vault
