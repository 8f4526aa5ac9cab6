// One process of atoll-unpack: in namespaces of its own, as root of a user namespace that holds
// nothing but the store's reserved ids, with one input and one directory.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host/host.h"

namespace atl::spawner {

// All processes of atoll-unpack are in this group, because what they take is no sandbox's: a
// stranger's files decide how much memory they need, and fill the caches of the host.
inline constexpr char kUnpackGroup[] = "unpack";
// One that is there stays, with the processes that are in it.
Status MakeUnpackGroup(const Host& host);
// Ends all processes in it first. An absent group is not an error. Nothing can be started in a
// group again once it was killed: Linux 6.18 kills each process that is born into it (CLONE_INTO_
// CGROUP), because it compares the kills of the group with those of the parent's.
Status RemoveUnpackGroup(const cgroup::Tree& cgroups);

// What is read of a report.
inline constexpr size_t kMaxReport = 64 << 10;

// The descriptors are those of runtime/wire/unpack.h, borrowed; the exit is the caller's to reap.
Result<pid_t> StartUnpacker(const Host& host, const std::vector<std::string>& arguments, int input,
                            int output, int report, std::span<const UniqueFd> layers = {});

// Returns the report. `text` is all that atoll-unpack has written. kInternal: it refused, and the
// message holds its own words, which carry their code (images/report.h); or it was killed, which is
// never the fault of whoever sent an archive.
Result<std::string> UnpackerResult(int wait_status, std::string text);

}  // namespace atl::spawner
