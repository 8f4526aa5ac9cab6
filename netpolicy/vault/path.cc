#include "netpolicy/vault/path.h"

#include "netpolicy/vault/encoding.h"
#include "runtime/http/ascii.h"

namespace atl::vault {
namespace {

// Most layers of encoding. Each decoding shortens the path, but one of 60 KiB could be decoded
// thousands of times.
constexpr int kMaxLayers = 10;

// Tomcat and others remove ";x" from a segment before they resolve it.
bool HasParentSegment(std::string_view path) {
  for (size_t at = path.find("/.."); at != std::string_view::npos; at = path.find("/..", at + 1)) {
    const size_t end = at + 3;
    if (end == path.size() || path[end] == '/' || path[end] == ';') return true;
  }
  return false;
}

}  // namespace

bool HasEncodedSlash(std::string_view path) {
  for (size_t at = path.find('%'); at != std::string_view::npos; at = path.find('%', at + 1)) {
    if (http::EqualNoCase(path.substr(at + 1, 2), "2f")) return true;
  }
  return false;
}

std::string DecodeOnce(std::string_view path) {
  std::string decoded;
  decoded.reserve(path.size());
  for (size_t i = 0; i < path.size(); ++i) {
    const int byte = EscapedByte(path, i);
    decoded.push_back(byte < 0 ? path[i] : static_cast<char>(byte));
    if (byte >= 0) i += 2;
  }
  return decoded;
}

bool IsAmbiguousPath(std::string_view path, EncodedSlash slash) {
  std::string layer(path);
  for (int i = 0; i < kMaxLayers; ++i) {
    if (HasParentSegment(layer)) return true;
    if (layer.find('\\') != std::string::npos) return true;
    if (HasEncodedSlash(layer) && (i > 0 || slash == EncodedSlash::kNever)) return true;
    std::string next = DecodeOnce(layer);
    if (next == layer) return false;
    layer = std::move(next);
  }
  return true;  // no client encodes that often
}

}  // namespace atl::vault
