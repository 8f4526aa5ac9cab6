#include "images/digest.h"

#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "runtime/base/sha256.h"

namespace atl::images {
namespace {

constexpr std::string_view kPrefix = "sha256:";
constexpr size_t kHashChunk = 256 << 10;

}  // namespace

std::string DigestText(std::string_view raw) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string text(kPrefix);
  for (const char c : raw) {
    const auto byte = static_cast<unsigned char>(c);
    text.append(1, kHex[byte >> 4]).append(1, kHex[byte & 15]);
  }
  return text;
}

bool IsSha256Digest(std::string_view text) {
  return text.size() == kPrefix.size() + 64 && text.starts_with(kPrefix) &&
         text.find_first_not_of("0123456789abcdef", kPrefix.size()) == std::string_view::npos;
}

std::string Sha256Of(std::string_view bytes) {
  return DigestText(Sha256(bytes));
}

Result<std::string> Sha256OfFile(int fd) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  if (!context || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1) {
    return Fail(Code::kInternal, "EVP_DigestInit_ex sha256");
  }
  std::string buffer(kHashChunk, '\0');
  off_t offset = 0;
  for (;;) {
    const ssize_t n = TEMP_FAILURE_RETRY(::pread(fd, buffer.data(), buffer.size(), offset));
    if (n < 0) return FailSys("read blob");
    if (n == 0) break;
    if (EVP_DigestUpdate(context.get(), buffer.data(), static_cast<size_t>(n)) != 1) {
      return Fail(Code::kInternal, "EVP_DigestUpdate");
    }
    offset += n;
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (EVP_DigestFinal_ex(context.get(), digest, &size) != 1) {
    return Fail(Code::kInternal, "EVP_DigestFinal_ex");
  }
  return DigestText({reinterpret_cast<const char*>(digest), size});
}

std::string HexOf(std::string_view digest) {
  return std::string(digest.substr(digest.find(':') + 1));
}

}  // namespace atl::images
