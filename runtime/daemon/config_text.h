// Configurations as text: the example file, and the effective configuration.
#pragma once

#include <string>

#include "runtime/base/result.h"
#include "runtime/daemon/config.h"

namespace atl::daemon {

// Returns a file with every key, explained and commented out, with its default.
std::string ExampleConfig();

// Returns a file with all of `config`. Of secrets it tells only whether they are set.
std::string EffectiveConfig(const Config& config);

// Writes the example to `path`. It is readable by root and by the group of the daemon's user,
// because a reload reads it without being root; 0600 if there is no such user. kAlreadyExists: the
// file exists and `force` is not set.
Status WriteExampleConfig(const std::string& path, bool force);

}  // namespace atl::daemon
