// Which system calls a sandbox may make: the calls of ordinary programs, compilers, debuggers and
// language runtimes. What is missing is missing on purpose: see the README of this folder.
#pragma once

#include <cstdint>

namespace atl::spawner {

// The newest number that this list has an opinion about (mseal, Linux 6.10).
inline constexpr uint32_t kLastKnownSyscall = 462;

bool IsAllowedSyscall(uint32_t number);
// Answered as by a kernel that was built without it: ENOSYS.
bool IsMissingSyscall(uint32_t number);

}  // namespace atl::spawner
