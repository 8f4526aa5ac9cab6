// Network namespaces for measurements, wired by ip(8).
//
// Thread rule: entering one moves the calling thread; sockets stay where they were made.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::bench {

Result<UniqueFd> OwnNetns();
// A new one with lo up, in which the caller then is.
Result<UniqueFd> NewNetns();
Status EnterNetns(const UniqueFd& netns);

// Each command is words with one space between them. The first that fails is the error.
Status RunAll(const std::vector<std::string>& commands);
// What `ip … netns` takes for a namespace of this process.
std::string NetnsPath(const UniqueFd& netns);

}  // namespace atl::bench
