#include "runtime/http/tls_memory.h"

#include <openssl/crypto.h>

#include <cstdlib>

#include "runtime/base/wiping_memory.h"

namespace atl::http {

Status WipeTlsMemory() {
  const int set = CRYPTO_set_mem_functions(
      [](size_t size, const char*, int) { return std::malloc(size); },
      [](void* memory, size_t size, const char*, int) { return WipingRealloc(memory, size); },
      [](void* memory, const char*, int) { WipingFree(memory); });
  if (set == 1) return {};
  return Fail(Code::kInternal, "OpenSSL has already allocated memory");
}

}  // namespace atl::http
