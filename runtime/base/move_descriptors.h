// Puts descriptors on the numbers at which a program that is about to be executed expects them.
//
// A number may be the target of one move and the source of another, so everything is lifted above
// all targets before anything is placed.
//
// Thread rule: for a process with one thread, in general a child before it executes. Allocates
// nothing.
#pragma once

#include <span>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl {

struct DescriptorMove {
  int from = -1;
  // The number that the program finds it at, open. kKeptAbove: it stays ours, close-on-exec, above
  // all targets, and `from` is its number from then on.
  int to = -1;
};
inline constexpr int kKeptAbove = -1;

// Orders `moves` by their targets. Behind it every descriptor above 2 that is no target is
// close-on-exec. An error leaves the table half changed: the process can only end.
Status MoveDescriptors(std::span<DescriptorMove> moves);

// A duplicate, close-on-exec, numbered `least` or above.
Result<UniqueFd> LiftDescriptor(int fd, int least);

}  // namespace atl
