// Moves descriptors to the numbers at which a program that is about to be executed expects them.
//
// A number may be the target of one move and the source of another. Therefore all descriptors are
// first lifted above all targets, and then placed.
//
// Thread rule: for a process with one thread, usually a child before it executes. Does not
// allocate.
#pragma once

#include <span>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl {

struct DescriptorMove {
  int from = -1;
  // The number at which the program finds the descriptor. kKeptAbove: the descriptor stays private,
  // close-on-exec, above all targets, and `from` becomes its number.
  int to = -1;
};
inline constexpr int kKeptAbove = -1;

// Sorts `moves` by target. Afterwards every descriptor above 2 that is not a target is
// close-on-exec. An error leaves the table half changed, and the process can only exit.
Status MoveDescriptors(std::span<DescriptorMove> moves);

// Returns a duplicate, close-on-exec, numbered `least` or above.
Result<UniqueFd> LiftDescriptor(int fd, int least);

}  // namespace atl
