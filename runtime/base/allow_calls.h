// Restricts a process to a list of system calls. For programs that read untrusted input and need
// little else. The filter of sandboxes is runtime/spawner/rules/seccomp.h.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/base/result.h"

namespace atl {

// A system call by its number (SCMP_SYS of <seccomp.h>). If `argument` is not -1, the call is
// allowed only if that argument, masked with `mask`, equals `value`.
struct AllowedCall {
  int number;
  int argument = -1;
  uint64_t mask = 0;
  uint64_t value = 0;
};

// Kills the process on any other call, and on any call of another ABI, because i386 and x32 use
// other numbers. Applies to the calling thread and what it starts. Needs no_new_privs.
Status AllowOnly(std::span<const AllowedCall> calls);

}  // namespace atl
