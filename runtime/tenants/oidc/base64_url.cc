#include "runtime/tenants/oidc/base64_url.h"

#include "runtime/base/base64.h"

namespace atl::tenants {

std::optional<std::string> DecodeBase64Url(std::string_view text) {
  if (text.find_first_of("+/=") != std::string_view::npos) return std::nullopt;
  std::string standard(text);
  for (char& c : standard) {
    if (c == '-') c = '+';
    if (c == '_') c = '/';
  }
  return DecodeBase64(standard);
}

}  // namespace atl::tenants
