#include "runtime/daemon/reload.h"

#include <string_view>
#include <utility>

#include "runtime/daemon/config_keys.h"

namespace atl::daemon {
namespace {

// A key that was made at the first start stands in a file that clients have been told of, by a file
// that only root can write: between that one and a configured one lies a restart.
bool CanChange(const Key& key, const Config& now, const Config& next) {
  if (std::string_view(key.name) != "api_key") return key.live;
  return !now.api_key.empty() && !next.api_key.empty();
}

}  // namespace

Result<Reload> PlanReload(const Config& now, const Sources& sources) {
  ATOLL_ASSIGN(Loaded next, LoadConfig(sources));
  Reload reload;
  reload.config = now;
  reload.warnings = std::move(next.warnings);
  for (const Key& key : Keys()) {
    if (!key.get) continue;
    const std::vector<std::string> value = key.get(next.config);
    if (value == key.get(now)) continue;
    if (CanChange(key, now, next.config)) {
      ATOLL_TRY(key.set(value, &reload.config));
      reload.changed.push_back(FullName(key));
    } else {
      reload.deferred.push_back(FullName(key));
    }
  }
  return reload;
}

}  // namespace atl::daemon
