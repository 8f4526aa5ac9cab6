// Verifies the chain of an audit log, and the kept lines from before it.
//
// The chain shows that a line was changed, removed or inserted, also at the beginning: what
// retention has deleted is named by a later line. The chain does not show that lines are missing at
// the end, or that somebody with root's rights has written the whole chain anew. For that, compare
// with a head that was kept outside of the files.
//
// Thread rule: reads all files; call where blocking is fine. The log may grow meanwhile.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/tenants/audit/audit_log.h"

namespace atl::audit {

struct VerifyReport {
  // The first line that is wrong; nothing after it was checked.
  struct BadLine {
    std::string file;
    uint64_t line = 0;  // counts from 1 in each file
    std::string reason;
  };
  struct Boot {
    std::string id;
    uint64_t first_seq = 0;
    std::string time;
  };
  struct Gap {
    uint64_t seq = 0;
    std::string line;
  };

  uint64_t files = 0;
  uint64_t lines = 0;
  uint64_t kept = 0;  // lines of deleted files (kept_lines.h), which were checked one by one
  uint64_t first_seq = 0;
  // When a daemon found that the log begins with `first_seq`, and did not know who had deleted what
  // was before: an older release, or somebody. Empty: nothing is missing, or retention has told.
  std::string found_so;
  Head head;          // the last good line
  std::string time;   // time of the head
  uint64_t torn = 0;  // bytes of an incomplete last line
  std::vector<Boot> boots;
  std::vector<Gap> gaps;
  std::optional<BadLine> bad;
  std::string
      head_trouble;  // why the expected head does not fit; empty: it does, or none was given
  bool good() const { return !bad && head_trouble.empty(); }
};

// Most boots and gaps in a report. Later ones are left out.
inline constexpr size_t kMostReported = 1000;

Result<VerifyReport> VerifyLog(const std::string& directory, const std::optional<Head>& expected);

}  // namespace atl::audit
