#include "runtime/sandbox/record/environment.h"

#include <utility>

namespace atl::sandbox {
namespace {

// The directories that an unconfigured shell searches.
constexpr char kDefaultPath[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

}  // namespace

std::vector<std::string> EnvironmentOf(const Sandbox& sandbox) {
  // A variable of the request overrides the image's.
  const auto& request = sandbox.spec.env;
  std::vector<std::string> env;
  env.reserve(sandbox.config.env.size() + request.size() + 2);
  bool has_path = false;
  const auto add = [&](std::string entry) {
    has_path = has_path || entry.starts_with("PATH=");
    env.push_back(std::move(entry));
  };
  for (const std::string& entry : sandbox.config.env) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = entry.substr(0, equals);
    if (name != kIdVariable && !request.contains(name)) add(entry);
  }
  for (const auto& [name, value] : request) {
    if (name != kIdVariable) add(name + "=" + value);
  }
  if (!has_path) env.emplace_back(kDefaultPath);
  return env;
}

}  // namespace atl::sandbox
