#include "runtime/base/health.h"

#include <utility>

#include "runtime/base/log.h"

namespace atl {

void Health::Set(std::string_view subject, std::string trouble) {
  const auto found = troubles_.find(subject);
  if (trouble.empty()) {
    if (found == troubles_.end()) return;
    troubles_.erase(found);
    LogLine(LogLevel::kInfo, "well again").Add("subject", subject);
    return;
  }
  if (found != troubles_.end() && found->second == trouble) return;
  LogLine(LogLevel::kError, "degraded").Add("subject", subject).Add("trouble", trouble);
  troubles_.insert_or_assign(std::string(subject), std::move(trouble));
}

}  // namespace atl
