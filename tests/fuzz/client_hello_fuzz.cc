// The ClientHello parser of the splice proxy. The first byte says how the rest is cut into pieces:
// a hello that is read means the same however it comes, and a decision stands.
#include <cstddef>
#include <cstdint>
#include <span>

#include "netpolicy/client_hello.h"
#include "netpolicy/host_name.h"
#include "runtime/base/result.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace atl::netpolicy;  // NOLINT(google-build-using-namespace): one function
  if (size == 0) return 0;
  const std::span<const uint8_t> bytes(data + 1, size - 1);
  const ClientHelloRead whole = ReadClientHello(bytes);
  const bool named = whole.state == ClientHelloRead::State::kWhole && !whole.hello.name.empty();
  if (named) ATOLL_CHECK(NormalHostName(whole.hello.name) == whole.hello.name);
  ATOLL_CHECK((whole.state == ClientHelloRead::State::kRefused) == (whole.reason != nullptr));
  ATOLL_CHECK(whole.state != ClientHelloRead::State::kMore || bytes.size() < kMaxClientHello);
  const size_t step = size_t{data[0]} + 1;
  for (size_t end = step; end < bytes.size(); end += step) {
    const ClientHelloRead part = ReadClientHello(bytes.first(end));
    if (part.state == ClientHelloRead::State::kMore) continue;
    ATOLL_CHECK(part.state == whole.state);
    ATOLL_CHECK(part.hello.name == whole.hello.name);
    ATOLL_CHECK(part.hello.encrypted == whole.hello.encrypted);
    break;
  }
  return 0;
}
