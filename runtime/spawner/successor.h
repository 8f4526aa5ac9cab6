// A process that waits for the spawner's death and starts it again, where no systemd does. It is a
// child of the spawner, not its parent: each of the two replaces the other, so that no single death
// leaves neither.
#pragma once

#include <sys/types.h>

#include <optional>

#include "runtime/base/result.h"
#include "runtime/spawner/rules/config.h"

namespace atl::spawner {

// Exit status of a spawner that has found another one in its place. The successor does not try
// again.
inline constexpr int kServedByAnother = 3;

class Successor {
 public:
  // Forks. The next spawner starts in `host_mounts`, the host's mount namespace (borrowed).
  static Result<Successor> Start(const Config& config, int host_mounts);
  // Returns the successor that the program before this one, of the same process, has handed over.
  static std::optional<Successor> HandedOver();

  // Hands the successor to the program that this process is about to execute. The environment
  // carries it, which an older program ignores.
  Status HandOver() const;
  // Ends the successor, because the spawner ends on purpose. Blocks until it is gone, for seconds
  // at most.
  void Dismiss() const;
  pid_t pid() const { return pid_; }

 private:
  explicit Successor(pid_t pid) : pid_(pid) {}
  pid_t pid_;
};

}  // namespace atl::spawner
