// Bundles of certificates, as text: PEM blocks one after the other, and between them whatever their
// makers write there, which every reader passes over. Free of I/O.
#pragma once

#include <string>
#include <string_view>

namespace atl::execd {

// The line before our certificate wherever it is among others. By it the next sandbox finds the one
// of its parent, of whose files it was made; tools that put bundles together keep it.
inline constexpr std::string_view kAuthorityMark = "# opensandbox-mitmproxy-ca\n";

bool HoldsCertificate(std::string_view text);

// `bundle` and at its end the certificate (PEM, with its last newline) behind its mark. What was in
// it of ours goes: each block behind a mark, and each that is `former` (PEM; empty: none is known),
// because there are tools that keep no line between blocks. Linear in what it is given.
std::string WithAuthority(std::string_view bundle, std::string_view certificate,
                          std::string_view former);

}  // namespace atl::execd
