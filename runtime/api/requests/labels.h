// Rules for metadata: those of Kubernetes labels, as upstream has them.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace atl::api {

// "" if it is fine, else what is wrong. Key: an optional DNS-subdomain prefix (at most 253) and
// "/", then a name of 1 to 63 characters; the prefix "opensandbox.io/" is ours.
std::string CheckLabelKey(std::string_view key);
// True for a name that only we may set.
bool IsReservedLabel(std::string_view key);
// Empty, or at most 63 characters.
std::string CheckLabelValue(std::string_view value);
// The first complaint about any of them, or about how many they are (sandbox::kMaxMetadata).
std::string CheckLabels(const std::map<std::string, std::string>& labels);

}  // namespace atl::api
