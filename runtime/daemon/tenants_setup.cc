#include "runtime/daemon/tenants_setup.h"

#include <cerrno>
#include <utility>

#include "runtime/api/gate/rights.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/daemon/directories.h"

namespace atl::daemon {

Result<tenants::TenantsFile> ReadTenants(const Config& config) {
  auto file = tenants::LoadTenants(config.tenants_file, {api::MayUse});
  const bool absent = !file && file.error().code() == Code::kNotFound;
  if (absent && config.tenants_provider == "http") return tenants::TenantsFile();
  if (absent) {
    return Fail(Code::kNotFound, config.tenants_file +
                                     " does not exist: write it, or name another with "
                                     "tenants.file");
  }
  return file;
}

void WarnOfTenants(const tenants::TenantsFile& file) {
  for (const std::string& warning : file.warnings) LogLine(LogLevel::kWarning, warning);
}

Result<std::unique_ptr<tenants::Directory>> OpenDirectory(const Config& config, Loop& loop,
                                                          tenants::TenantTable& table,
                                                          const std::string& secret) {
  if (config.tenants_provider.empty()) return std::unique_ptr<tenants::Directory>();
  ATOLL_ASSIGN(tenants::TenantsFile file, ReadTenants(config));
  WarnOfTenants(file);
  ATOLL_ASSIGN(auto keys, tenants::KeyStore::Open(StateDir(config) + "/" + kKeyStoreFile, loop,
                                                  SystemClock()));
  std::unique_ptr<tenants::HttpProvider> provider;
  if (config.tenants_provider == "http") {
    const tenants::HttpProvider::Settings settings{.endpoint = config.tenants_endpoint,
                                                   .auth_header = config.tenants_auth_header,
                                                   .auth_token = config.tenants_auth_token,
                                                   .timeout_seconds = config.tenants_timeout,
                                                   .max_stale_seconds = config.tenants_max_stale,
                                                   .secret = secret};
    provider = std::make_unique<tenants::HttpProvider>(loop, SystemClock(), table, settings,
                                                       tenants::HttpAsk(settings));
  }
  auto directory = std::make_unique<tenants::Directory>(
      tenants::Directory::Parts{loop, SystemClock(), table, std::move(keys), std::move(provider),
                                secret, config.tenants_max_stale});
  LogLine(LogLevel::kInfo, "serving tenants")
      .Add("provider", config.tenants_provider)
      .Add("tenants", static_cast<uint64_t>(file.tenants.size()));
  directory->Replace(std::move(file));
  return directory;
}

Status CheckTenantsFile(const Config& config) {
  if (config.tenants_provider.empty()) return {};
  const auto file = ReadTenants(config);
  if (file) {
    WarnOfTenants(*file);
    return {};
  }
  if (file.error().error_number() != EACCES) return Fail(file.error());
  LogLine(LogLevel::kWarning, "cannot check the tenants, because this user cannot read the file")
      .Add(file.error());
  return {};
}

}  // namespace atl::daemon
