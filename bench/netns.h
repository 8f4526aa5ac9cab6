// Network namespaces for measurements, connected by commands of ip(8).
//
// Thread rule: entering a namespace moves the calling thread. A socket stays in the namespace that
// it was created in.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::bench {

Result<UniqueFd> OwnNetns();
// Creates a network namespace with lo up and moves the calling thread into it.
Result<UniqueFd> NewNetns();
Status EnterNetns(const UniqueFd& netns);

// Runs the commands in order, each as words with one space between them. Stops at the first failure
// and returns it.
Status RunAll(const std::vector<std::string>& commands);
// Returns a path that `ip … netns` accepts for a namespace of this process.
std::string NetnsPath(const UniqueFd& netns);

}  // namespace atl::bench
