#include "runtime/daemon/reload.h"

#include <string_view>
#include <utility>

#include "runtime/daemon/config_keys.h"

namespace atl::daemon {
namespace {

// A missing API key means either a generated key or none. Which of them applies is decided only at
// a start.
bool CanChange(const Key& key, const Config& now, const Config& next) {
  // A daemon with tenants has no such key, and leaving tenants takes a restart.
  if (std::string_view(key.name) == "api_key") {
    return !next.api_key.empty() && now.tenants_provider.empty();
  }
  return key.live;
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
