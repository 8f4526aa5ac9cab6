// Where images are that are not here, and which of them an operator lets us fetch.
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

// What a normalised name means to everybody: what names no registry is Docker's.
Reference ReferenceOf(const std::string& name);

// One rule of what may be fetched: as of images/allowed.h, without a digest; and the registry is
// one and spelled out, so that no rule for names of one reaches a server that somebody else names.
Result<std::string> CheckPullRule(const std::string& rule);
// No rules: nothing.
bool MayPull(const std::vector<std::string>& rules, const std::string& name);

}  // namespace atl::images::registry
