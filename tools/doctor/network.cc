// Reports the findings of netpolicy's own host check.
#include "netpolicy/host_check.h"
#include "tools/doctor/checks.h"

namespace atl::doctor {
namespace {

// The first daemon's number; other daemons differ only in names.
constexpr uint32_t kInstance = 0;

Grade GradeOf(netpolicy::HostFinding::Level level) {
  using Level = netpolicy::HostFinding::Level;
  switch (level) {
    case Level::kOk:
      return Grade::kOk;
    case Level::kWarning:
      return Grade::kWarning;
    case Level::kBlocked:
      return Grade::kMissing;
  }
  return Grade::kMissing;
}

}  // namespace

std::vector<Finding> CheckNetwork() {
  std::vector<Finding> findings;
  for (const netpolicy::HostFinding& found : netpolicy::CheckHost(kInstance)) {
    // The finding may have the form "subject: text".
    const size_t colon = found.what.find(": ");
    Finding finding{"network", GradeOf(found.level), found.what, found.fix};
    if (colon != std::string::npos) {
      finding.name = found.what.substr(0, colon);
      finding.text = found.what.substr(colon + 2);
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace atl::doctor
