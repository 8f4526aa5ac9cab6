// Feeds hostile bytes to the parser of policies and checks the properties that enforcement relies
// on. An accepted policy can be written and read again. Its ranges are in order and do not overlap.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "netpolicy/policy/egress.h"
#include "netpolicy/policy/policy_json.h"
#include "runtime/base/result.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace atl::netpolicy;  // NOLINT(google-build-using-namespace): one function
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)ParsePolicyTargets(text);
  if (const auto added = ParsePolicyRules(text)) {
    const Policy merged = WithRules({}, *added);
    ATOLL_CHECK(merged.rules.size() <= added->size());
  }
  const auto policy = ParsePolicy(text);
  if (!policy) return 0;
  const std::string written = PolicyToJson(*policy);
  const auto again = ParsePolicy(written);
  ATOLL_CHECK(again && PolicyToJson(*again) == written);
  const auto egress = Egress::Make(Share(*policy), {}, {*ParseIpPrefix("10.0.0.0/8")}, nullptr);
  if (!egress) return 0;
  const auto in_order = [](const Egress::Ranges& ranges) {
    for (size_t i = 0; i < ranges.size(); ++i) {
      ATOLL_CHECK(ranges[i].first <= ranges[i].last);
      ATOLL_CHECK(ranges[i].first.ipv6 == ranges[i].last.ipv6);
      ATOLL_CHECK(i == 0 || ranges[i - 1].last < ranges[i].first);
    }
  };
  in_order((*egress)->ranges());
  for (const auto& [port, ranges] : (*egress)->port_ranges()) in_order(ranges);
  for (const PolicyRule& rule : policy->rules) (void)(*egress)->JudgeName(rule.parsed.name);
  return 0;
}
