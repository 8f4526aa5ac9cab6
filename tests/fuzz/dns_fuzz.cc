// Feeds hostile bytes to the DNS parsers and checks what the forwarder relies on.
#include <cstddef>
#include <cstdint>
#include <span>

#include "netpolicy/dns_message.h"
#include "runtime/base/result.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace atl::netpolicy;  // NOLINT(google-build-using-namespace): one function
  const std::span<const uint8_t> message(data, size);
  if (const auto result = ParseDnsQuery(message)) {
    const auto error = MakeDnsError(message, DnsRcode::kServerFailure);
    ATOLL_CHECK(error.size() >= kDnsHeaderSize && error.size() <= size);
    if (result->rcode == DnsRcode::kNoError) {
      ATOLL_CHECK(result->query.question.Matches(result->query.question));
      const auto truncated = MakeDnsTruncated(result->query, 0x8180);
      const auto again = ParseDnsResponse(truncated);
      ATOLL_CHECK(again && again->question.Matches(result->query.question));
    }
  }
  if (const auto response = ParseDnsResponse(message)) {
    for (const DnsRecord& record : response->records) {
      ATOLL_CHECK(record.data.empty() || (record.data.data() >= data &&
                                          record.data.data() + record.data.size() <= data + size));
      ATOLL_CHECK(record.name.size() <= 4 * 255);
    }
  }
  return 0;
}
