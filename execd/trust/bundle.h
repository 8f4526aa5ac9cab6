// Bundles of certificates as text: PEM blocks in sequence. Text between the blocks is a comment
// that every reader ignores. Free of I/O.
#pragma once

#include <string>
#include <string_view>

namespace atl::execd {

// Line before execd's certificate in every bundle. A sandbox made from a snapshot finds its
// parent's certificate by this line. Tools that merge bundles keep it.
inline constexpr std::string_view kAuthorityMark = "# opensandbox-mitmproxy-ca\n";

bool HoldsCertificate(std::string_view text);

// Returns `bundle` with the certificate (PEM, with its last newline) and its mark appended. Removes
// earlier certificates of execd first: each block after a mark, and each block equal to `former`
// (PEM; empty: not known), because some tools drop the text between blocks. Takes linear time.
std::string WithAuthority(std::string_view bundle, std::string_view certificate,
                          std::string_view former);

}  // namespace atl::execd
