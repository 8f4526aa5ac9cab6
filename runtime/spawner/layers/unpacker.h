// Starts one process of atoll-unpack, in namespaces of its own, as root of a user namespace that
// holds only the store's reserved ids, with one input and one directory.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host/host.h"

namespace atl::spawner {

// All processes of atoll-unpack are in this cgroup, because their use of memory and caches is no
// sandbox's, and a stranger's files decide how much it is.
inline constexpr char kUnpackGroup[] = "unpack";
// Leaves an existing cgroup and its processes as they are.
Status MakeUnpackGroup(const Host& host);
// Ends all processes in it first. An absent cgroup is not an error. Nothing can be started in a
// cgroup again after it was killed: Linux 6.18 kills each process that is born into it
// (CLONE_INTO_CGROUP), because it compares the kills of the cgroup with those of the parent's.
Status RemoveUnpackGroup(const cgroup::Tree& cgroups);

// Longer reports are cut.
inline constexpr size_t kMaxReport = 64 << 10;

// The descriptors are those of runtime/wire/unpack.h, borrowed. The caller reaps the process.
Result<pid_t> StartUnpacker(const Host& host, const std::vector<std::string>& arguments, int input,
                            int output, int report, std::span<const UniqueFd> layers = {});

// Returns the report. `text` is all that atoll-unpack has written. kInternal: it refused, and the
// message is its own, which carries its code (images/report.h). Or it was killed, which is never
// the fault of the archive's sender.
Result<std::string> UnpackerResult(int wait_status, std::string text);

}  // namespace atl::spawner
