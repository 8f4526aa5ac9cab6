#include "runtime/base/sha256.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "runtime/base/result.h"

namespace atl {

std::string Sha256(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  ATOLL_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr) == 1);
  return {reinterpret_cast<const char*>(digest), size};
}

std::string HmacSha256(std::string_view key, std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  ATOLL_CHECK(::HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                     reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest,
                     &size) != nullptr);
  return {reinterpret_cast<const char*>(digest), size};
}

}  // namespace atl
