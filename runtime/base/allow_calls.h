// The only system calls that a process may make from now on. For programs that read what strangers
// write and need little else (the sandboxes' own filter is runtime/spawner/seccomp.h).
#pragma once

#include <cstdint>
#include <span>

#include "runtime/base/result.h"

namespace atl {

// By its number (SCMP_SYS of <seccomp.h>); one whose `argument` is not -1 only with that argument,
// under `mask`, equal to `value`.
struct AllowedCall {
  int number;
  int argument = -1;
  uint64_t mask = 0;
  uint64_t value = 0;
};

// Any other call, and any by another ABI (i386 and x32 numbers mean other calls), ends the process
// at once. For the calling thread and what it starts; needs no_new_privs.
Status AllowOnly(std::span<const AllowedCall> calls);

}  // namespace atl
