#include "runtime/base/move_descriptors.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <unistd.h>

#include <algorithm>
#include <string>

namespace atl {
namespace {

// Marks the descriptors `first` to `last`, both included.
Status CloseOnExec(unsigned first, unsigned last) {
  if (first > last) return {};
  if (::close_range(first, last, CLOSE_RANGE_CLOEXEC) != 0) return FailSys("close_range");
  return {};
}

}  // namespace

Result<UniqueFd> LiftDescriptor(int fd, int least) {
  UniqueFd lifted(::fcntl(fd, F_DUPFD_CLOEXEC, least));
  if (!lifted) return FailSys("fcntl F_DUPFD_CLOEXEC " + std::to_string(fd));
  return lifted;
}

Status MoveDescriptors(std::span<DescriptorMove> moves) {
  int above = STDERR_FILENO + 1;
  for (const DescriptorMove& move : moves) above = std::max(above, move.to + 1);
  for (DescriptorMove& move : moves) {
    ATOLL_ASSIGN(UniqueFd lifted, LiftDescriptor(move.from, above));
    move.from = lifted.release();
  }
  std::sort(moves.begin(), moves.end(), [](const auto& a, const auto& b) { return a.to < b.to; });
  auto next = static_cast<unsigned>(STDERR_FILENO + 1);
  for (const DescriptorMove& move : moves) {
    if (move.to == kKeptAbove) continue;
    if (::dup3(move.from, move.to, 0) < 0) return FailSys("dup3 to " + std::to_string(move.to));
    if (move.to <= STDERR_FILENO) continue;
    ATOLL_TRY(CloseOnExec(next, static_cast<unsigned>(move.to) - 1));
    next = static_cast<unsigned>(move.to) + 1;
  }
  return CloseOnExec(next, ~0U);
}

}  // namespace atl
