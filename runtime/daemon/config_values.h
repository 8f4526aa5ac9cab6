// What the values of the configuration may be. Each of these returns the value as it is kept, or
// kInvalidArgument with what is allowed in its place. None of them repeats a secret.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "runtime/base/result.h"

namespace atl::daemon {

// "'VALUE': ALLOWED".
Error BadValue(const std::string& value, const std::string& allowed);

Result<uint64_t> ParseNumber(const std::string& text, uint64_t min, uint64_t max);
// With a unit, as "512Mi".
Result<uint64_t> ParseSize(const std::string& text, uint64_t min, uint64_t max);

// Without a slash at its end.
Result<std::string> CheckAbsolutePath(const std::string& text);
// The same, or empty.
Result<std::string> CheckOptionalPath(const std::string& text);
// A line of wire/object_store.h.
Result<std::string> CheckObjectStore(const std::string& text);
// As the spawner wants them: it opens what it is told, and resolves nothing.
Result<std::string> CheckHostPath(const std::string& text);

// An address to listen on.
Result<std::string> CheckHost(const std::string& text);
// "ADDRESS:PORT" to listen on, "[ADDRESS]:PORT" of IPv6, or empty.
Result<std::string> CheckListen(const std::string& text);
// The two parts of one that is not empty.
std::pair<std::string, uint16_t> PartsOfListen(const std::string& text);
// It travels in a header field: visible ASCII, and nothing that could end it.
Result<std::string> CheckApiKey(const std::string& text);
// Of a policy's rule: a name, a wildcard or a prefix.
Result<std::string> CheckTarget(const std::string& text);
Result<std::string> CheckPrefix(const std::string& text);
// An http:// or https:// URL, or empty.
Result<std::string> CheckOptionalUrl(const std::string& text);
// As OpenTelemetry's collectors show it.
Result<std::string> CheckServiceName(const std::string& text);
// Upstream's files have a scheme here, which goes.
Result<std::string> CheckPublicHost(const std::string& text);
Result<std::string> CheckBasePath(const std::string& text);
Result<std::string> CheckUser(const std::string& text);
// An address, with a port if it is not 53.
Result<std::string> CheckResolver(const std::string& text);
Result<std::string> CheckGatewayAddress(const std::string& text);
Result<std::string> CheckRouteMode(const std::string& text);

}  // namespace atl::daemon
