// Descriptors and paths of a guard. A guard is the first process of a slot whose execd is behind a
// stronger wall: it starts that wall with execd in it, and passes connections on
// (runtime/guard/README.md).
//
// It has the gate, the control socket and the listener of execd (start.h), and these.
#pragma once

#include "runtime/wire/start.h"

namespace atl::wire {

inline constexpr int kGuardRuntimeFd = 6;  // the program of gVisor, runsc

// Paths in the slot's tree. A build writes the configuration before it opens the gate. The shared
// directory is also in the sandbox, at kGuardedDirectory. It holds execd's program, and execd
// listens there, behind the wall.
inline constexpr const char kGuardDirectory[] = "/guard";
inline constexpr const char kGuardBundle[] = "/guard/bundle";
inline constexpr const char kGuardShared[] = "/guard/shared";
inline constexpr const char kGuardedDirectory[] = "/.atoll";
inline constexpr const char kGuardedSocket[] = "execd.sock";
// Made by execd when it listens. The guard must not touch the socket before, and never this file:
// runsc looks at a new file by its name once more, and the call in the sandbox fails if that is
// gone.
inline constexpr const char kGuardedReady[] = "ready";

}  // namespace atl::wire
