// Fuzzes the ClientHello parser of the splice proxy, and its reader of the records after a hello.
// The first byte chooses how the rest is cut into pieces. A hello must mean the same however it is
// cut, a decision must not change with more bytes, and the same bytes after the hello must pass.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "netpolicy/splice/client_hello.h"
#include "netpolicy/splice/host_name.h"
#include "netpolicy/splice/tls_records.h"
#include "runtime/base/result.h"

namespace {

using atl::netpolicy::TlsRecords;

// Returns how many bytes pass if `bytes` arrive in pieces of `step`, and how it ends.
std::pair<size_t, TlsRecords::Kind> Passed(const atl::netpolicy::ClientHello& first,
                                           std::string_view bytes, size_t step) {
  TlsRecords records;
  records.Begin(first);
  size_t passed = 0;
  for (size_t end = std::min(step, bytes.size());; end = std::min(end + step, bytes.size())) {
    while (true) {
      const auto piece = records.Take(bytes.substr(passed, end - passed));
      if (piece.kind == TlsRecords::Kind::kMore) break;
      if (piece.kind != TlsRecords::Kind::kPass) return {passed, piece.kind};
      ATOLL_CHECK(piece.size <= end - passed);
      passed += piece.size;
      if (passed == end) break;
    }
    ATOLL_CHECK(end - passed <= atl::netpolicy::kMaxClientHello);
    if (end == bytes.size()) return {passed, TlsRecords::Kind::kMore};
  }
}

}  // namespace

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
    ATOLL_CHECK(part.size == whole.size && part.size <= end);
    break;
  }
  if (whole.state != ClientHelloRead::State::kWhole) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(bytes.data()) + whole.size,
                              bytes.size() - whole.size);
  ATOLL_CHECK(Passed(whole.hello, rest, rest.size() + 1) == Passed(whole.hello, rest, step));
  return 0;
}
