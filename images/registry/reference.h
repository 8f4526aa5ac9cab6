// Finds the registry of a missing image, and decides whether the operator allows to fetch it.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace atl::images::registry {

struct Reference {
  std::string registry;    // "registry.example:5000", "docker.io"
  std::string repository;  // "library/python"
  std::string tag;
};

// Returns the registry, repository and tag of a normalised name. A name without a registry is
// Docker's.
Reference ReferenceOf(const std::string& name);

// Checks a rule for images that may be fetched: like those of images/allowed.h, but without a
// digest, and with a complete registry, so that a rule for names of one registry never matches a
// server that a client names.
Result<std::string> CheckPullRule(const std::string& rule);
// Returns true if a rule matches the name. No rules match nothing.
bool MayPull(const std::vector<std::string>& rules, const std::string& name);

}  // namespace atl::images::registry
