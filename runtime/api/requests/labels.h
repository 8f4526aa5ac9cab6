// Rules for metadata: those of Kubernetes labels, as in upstream.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace atl::api {

// Returns "" for a valid key, else what is wrong. A key has an optional prefix and "/" (a DNS
// subdomain of at most 253 characters), then a name of 1 to 63 characters. The prefix
// "opensandbox.io/" is reserved.
std::string CheckLabelKey(std::string_view key);
// Returns true for a key that only the daemon may set.
bool IsReservedLabel(std::string_view key);
// Returns "" for a valid value, else what is wrong. A value has at most 63 characters.
std::string CheckLabelValue(std::string_view value);
// Returns the first error of any label, or of their number (sandbox::kMaxMetadata).
std::string CheckLabels(const std::map<std::string, std::string>& labels);

}  // namespace atl::api
