#include "execd/trust/bundle.h"

#include <utility>

namespace atl::execd {
namespace {

constexpr std::string_view kBegin = "-----BEGIN CERTIFICATE-----";
constexpr std::string_view kEnd = "-----END CERTIFICATE-----";

struct Piece {
  std::string_view before;  // text before the certificate
  std::string_view block;   // empty: no further certificate
};

// Removes everything up to the end of the next certificate from `rest`.
Piece Next(std::string_view* rest) {
  const size_t begin = rest->find(kBegin);
  const size_t end = begin == std::string_view::npos ? begin : rest->find(kEnd, begin);
  if (end == std::string_view::npos) return {std::exchange(*rest, {}), {}};
  const Piece piece{rest->substr(0, begin), rest->substr(begin, end + kEnd.size() - begin)};
  rest->remove_prefix(end + kEnd.size());
  return piece;
}

}  // namespace

bool HoldsCertificate(std::string_view text) {
  return !Next(&text).block.empty();
}

std::string WithAuthority(std::string_view bundle, std::string_view certificate,
                          std::string_view former) {
  const std::string_view known = Next(&former).block;
  std::string out;
  out.reserve(bundle.size() + kAuthorityMark.size() + certificate.size() + 1);
  while (!bundle.empty()) {
    Piece piece = Next(&bundle);
    const bool marked = !piece.block.empty() && piece.before.ends_with(kAuthorityMark);
    if (marked) piece.before.remove_suffix(kAuthorityMark.size());
    out.append(piece.before);
    if (!marked && (piece.block.empty() || piece.block != known)) {
      out.append(piece.block);
    } else if (bundle.starts_with('\n')) {
      bundle.remove_prefix(1);
    }
  }
  if (!out.empty() && out.back() != '\n') out.push_back('\n');
  return out.append(kAuthorityMark).append(certificate);
}

}  // namespace atl::execd
