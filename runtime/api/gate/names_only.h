// Hides contents from callers who may only read names and states (auditors).
#pragma once

#include <string>

namespace atl::api {

// Returns a JSON answer without commands, env, extensions and the values of labels, at any depth.
// The label "name" stays. A text that is not JSON is returned as it is.
std::string NamesOnly(const std::string& body);

}  // namespace atl::api
