// Checks of configuration values. Each function returns the value in its stored form, or
// kInvalidArgument with what is allowed instead. No error repeats a secret.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "runtime/base/result.h"

namespace atl::daemon {

// Returns the error "'VALUE': ALLOWED".
Error BadValue(const std::string& value, const std::string& allowed);

Result<uint64_t> ParseNumber(const std::string& text, uint64_t min, uint64_t max);
// Accepts a number with a unit, such as "512Mi".
Result<uint64_t> ParseSize(const std::string& text, uint64_t min, uint64_t max);

// Removes a trailing slash.
Result<std::string> CheckAbsolutePath(const std::string& text);
// Like CheckAbsolutePath, but accepts an empty text.
Result<std::string> CheckOptionalPath(const std::string& text);
// Checks a line of wire/object_store.h.
Result<std::string> CheckObjectStore(const std::string& text);
// Returns the tier that a word of secure_runtime means. Accepts an empty text.
Result<std::string> CheckIsolation(const std::string& text);
// Checks "vendor.example/class", or an empty text.
Result<std::string> CheckDeviceKind(const std::string& text);
// Requires the form that the spawner accepts: it opens the path as it is and resolves nothing.
Result<std::string> CheckHostPath(const std::string& text);

// Checks an address to listen on.
Result<std::string> CheckHost(const std::string& text);
// Checks "ADDRESS:PORT" to listen on, for IPv6 "[ADDRESS]:PORT", or an empty text.
Result<std::string> CheckListen(const std::string& text);
// Splits a non-empty one into its two parts.
std::pair<std::string, uint16_t> PartsOfListen(const std::string& text);
// Requires visible ASCII, because the key travels in a header field.
Result<std::string> CheckApiKey(const std::string& text);
// Checks the target of a policy rule: a name, a wildcard or a prefix.
Result<std::string> CheckTarget(const std::string& text);
Result<std::string> CheckPrefix(const std::string& text);
// Accepts an http:// or https:// URL, or an empty text.
Result<std::string> CheckOptionalUrl(const std::string& text);
// Checks a name as OpenTelemetry's collectors show it.
Result<std::string> CheckServiceName(const std::string& text);
// Removes a scheme, which upstream's files have here.
Result<std::string> CheckPublicHost(const std::string& text);
Result<std::string> CheckBasePath(const std::string& text);
Result<std::string> CheckUser(const std::string& text);
// Accepts an address, with a port if it is not 53.
Result<std::string> CheckResolver(const std::string& text);
Result<std::string> CheckGatewayAddress(const std::string& text);
Result<std::string> CheckRouteMode(const std::string& text);

}  // namespace atl::daemon
