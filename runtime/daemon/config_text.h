// Configurations written out: the example file, and what is in force.
#pragma once

#include <string>

#include "runtime/base/result.h"
#include "runtime/daemon/config.h"

namespace atl::daemon {

// A file with every key, explained and commented out, at its default.
std::string ExampleConfig();

// A file that says all of `config`. Of secrets only that they are there.
std::string EffectiveConfig(const Config& config);

// Writes the example to `path`, for root and, as far as reading goes, the group of the daemon's
// user (a reload reads it again, without being root); 0600 while there is no such user.
// kAlreadyExists for an existing file unless `force`.
Status WriteExampleConfig(const std::string& path, bool force);

}  // namespace atl::daemon
