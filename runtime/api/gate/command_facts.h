// Facts for the audit log about a command, from the body of a request to execd.
//
// Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/tenants/audit/event.h"
#include "runtime/tenants/audit/level.h"

namespace atl::api {

// Most bytes of a body that are looked at.
inline constexpr size_t kMaxAuditedBody = 64 << 10;

// Hides keys and tokens (credential.h), and what looks like a secret: the value of NAME=VALUE and
// --name VALUE if the name is that of a secret, the user part of a URL, and what follows Bearer or
// Basic.
std::string WithoutSecrets(std::string_view text);

// Returns facts about the "command", "argv" or "code" of a body: the program, the number of words,
// an HMAC of the text, the directory and the user; with kFull also the text. An HMAC of the body
// is always there, because the sandbox may read it otherwise. "ambiguous" marks a body that has a
// name twice, bytes behind its object, or no object that can be read. Nothing with a lower level
// than kArgv. `whole` is false if the body was cut off.
std::vector<audit::Fact> CommandFacts(std::string_view body, bool whole, audit::Level level,
                                      const std::function<std::string(std::string_view)>& hmac);

}  // namespace atl::api
