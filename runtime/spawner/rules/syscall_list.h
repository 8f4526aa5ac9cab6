// The system calls that a sandbox may make: those of ordinary programs, compilers, debuggers and
// language runtimes. A missing call is missing on purpose: see the README of this folder.
#pragma once

#include <cstdint>

namespace atl::spawner {

// The newest number that this list decides about (mseal, Linux 6.10).
inline constexpr uint32_t kLastKnownSyscall = 462;

bool IsAllowedSyscall(uint32_t number);
// Returns whether the call gets ENOSYS, as from a kernel that was built without it.
bool IsMissingSyscall(uint32_t number);

}  // namespace atl::spawner
