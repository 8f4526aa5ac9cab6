#include <nlohmann/json.hpp>

#include "runtime/base/json_text.h"
#include "tools/atoll/client/api.h"
#include "tools/doctor/checks.h"

namespace atl::doctor {

std::vector<Finding> CheckDaemon(const cli::Settings& settings) {
  const std::string name = "daemon";
  auto api = cli::Api::Connect(settings);
  auto answer = api ? api->Send("GET", "/health") : Fail(std::move(api).error());
  if (!answer && !settings.server.empty()) {
    return {Missing(name, answer.error().message(), "start it, or name another with --server")};
  }
  // A daemon that does not run is no fault of the host.
  if (!answer) return {Ok(name, "none answers: " + answer.error().message())};
  // /health needs no key, so this request tests the key.
  if (const auto let_in = api->Send("GET", "/sandboxes?pageSize=1"); !let_in) {
    return {Missing(name, api->server_url() + ": " + let_in.error().message(),
                    "name its key's file with --api-key-file, or set ATOLL_API_KEY")};
  }
  const auto health = JsonOrNull(answer->body);
  std::vector<Finding> findings;
  if (health.is_object() && health.contains("troubles") && health["troubles"].is_object()) {
    for (const auto& [subject, trouble] : health["troubles"].items()) {
      if (!trouble.is_string()) continue;
      findings.push_back(
          Warning(name, subject + ": " + trouble.get<std::string>(), "see the daemon's log"));
    }
  }
  if (findings.empty())
    findings.push_back(Ok(name, "the one at " + api->server_url() + " is well"));
  return findings;
}

}  // namespace atl::doctor
