// Feeds hostile bytes to the readers of signed tokens, of their claims and of key sets. What is
// accepted keeps to the limits, and nothing that no key has signed is verified.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/tenants/oidc/token.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace atl::tenants;  // NOLINT(google-build-using-namespace): one function
  static const auto keys =
      KeySet::Parse(R"({"keys":[{"kty":"EC","crv":"P-256","kid":"k","use":"sig",)"
                    R"("x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",)"
                    R"("y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]})");
  ATOLL_CHECK(keys.has_value());
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto head = ReadTokenHead(text)) {
    ATOLL_CHECK(IsToken(text) && size <= kMaxToken);
    ATOLL_CHECK(!head->issuer.empty() && !head->algorithm.empty());
    ATOLL_CHECK(!VerifyToken(text, *head, **keys, 0));
    TokenHead own = *head;
    own.key_id = "k";
    own.algorithm = "ES256";
    ATOLL_CHECK(!VerifyToken(text, own, **keys, 0));
  }
  if (const auto claims = ReadClaims(text)) {
    ATOLL_CHECK(!claims->subject.empty() && claims->subject.size() <= 255);
    ATOLL_CHECK(!claims->audiences.empty() && claims->expires_s >= 0);
    for (const auto& [name, texts] : claims->texts) {
      ATOLL_CHECK(!texts.empty() && texts.size() <= kMaxTextsOfClaim);
    }
  }
  if (const auto set = KeySet::Parse(text)) {
    ATOLL_CHECK((*set)->size() >= 1 && (*set)->size() <= kMaxKeysOfSet);
  }
  return 0;
}
