#include "runtime/sandbox/create/own_mounts.h"

#include <algorithm>
#include <string>
#include <utility>

namespace atl::sandbox {
namespace {

using Kind = wire::Volume::Kind;

// Returns the longest allowed directory that is `path` or lies above it; null if there is none.
const std::string* AllowedAbove(const tenants::Tenant* tenant, const std::string& path) {
  const std::string* longest = nullptr;
  if (tenant == nullptr) return longest;
  for (const std::string& allowed : tenant->host_paths) {
    if (path != allowed && !path.starts_with(allowed + "/")) continue;
    if (longest == nullptr || allowed.size() > longest->size()) longest = &allowed;
  }
  return longest;
}

std::string Joined(const std::string& above, const std::string& below) {
  return above.empty() || below.empty() ? above + below : above + "/" + below;
}

}  // namespace

tl::expected<std::vector<VolumeMount>, CreateError> OwnMounts(const tenants::Caller& caller,
                                                              const tenants::Tenant* tenant,
                                                              std::vector<VolumeMount> mounts) {
  for (VolumeMount& mount : mounts) {
    wire::Volume& volume = mount.volume;
    if (volume.kind == Kind::kNamed) {
      volume.source = wire::VolumeDirectory(caller.tenant, volume.source);
    }
    if (volume.kind != Kind::kHost) continue;
    const std::string* const allowed = AllowedAbove(tenant, volume.source);
    if (allowed == nullptr) {
      return tl::unexpected(CreateError(
          Error(Code::kPermissionDenied, "the host path '" + volume.source.substr(0, 200) +
                                             "' may not be mounted by this tenant; host_paths of "
                                             "its definition lists the paths that may"),
          Kind::kHost));
    }
    const size_t rest = std::min(allowed->size() + 1, volume.source.size());
    volume.sub_path = Joined(volume.source.substr(rest), volume.sub_path);
    volume.source = *allowed;
  }
  return mounts;
}

}  // namespace atl::sandbox
