#include "images/registry/reference.h"

#include <algorithm>

#include "images/allowed.h"

namespace atl::images::registry {
namespace {

constexpr char kDocker[] = "docker.io";

// Returns the registry of a name, or of a rule for names.
std::string RegistryOf(const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos) return kDocker;
  const std::string first = name.substr(0, slash);
  const bool host = first == "localhost" || first.find_first_of(".:") != std::string::npos;
  return host ? first : kDocker;
}

}  // namespace

Reference ReferenceOf(const std::string& name) {
  Reference reference;
  reference.registry = RegistryOf(name);
  const size_t colon = name.rfind(':');
  reference.tag = name.substr(colon + 1);
  reference.repository = name.substr(0, colon);
  if (reference.registry != kDocker) {
    reference.repository.erase(0, reference.registry.size() + 1);
  } else if (reference.repository.find('/') == std::string::npos) {
    reference.repository.insert(0, "library/");
  }
  return reference;
}

Result<std::string> CheckPullRule(const std::string& rule) {
  if (rule.find('@') != std::string::npos) {
    return Fail(
        Code::kInvalidArgument,
        "'" + rule + "': rules for pulls match names; a digest belongs into images.allowed");
  }
  ATOLL_ASSIGN(std::string checked, CheckAllowedRule(rule));
  if (RegistryOf(checked).find('*') != std::string::npos) {
    return Fail(Code::kInvalidArgument,
                "'" + rule + "': use a complete registry, such as registry.example/*");
  }
  return checked;
}

bool MayPull(const std::vector<std::string>& rules, const std::string& name) {
  return std::any_of(rules.begin(), rules.end(), [&](const std::string& rule) {
    return RegistryOf(rule) == RegistryOf(name) && CheckAllowed({rule}, name, "");
  });
}

}  // namespace atl::images::registry
