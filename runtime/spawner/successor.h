// The process that waits for the spawner's death and starts it again, where no systemd does (under
// systemd that is the unit's work). It is a child of the spawner, not its parent: each of the two
// replaces the other, so that neither of them is the one whose end leaves nobody.
#pragma once

#include <sys/types.h>

#include <optional>

#include "runtime/base/result.h"
#include "runtime/spawner/rules/config.h"

namespace atl::spawner {

// Exit status of a spawner that has found another one in its place: there is nothing to try again.
inline constexpr int kServedByAnother = 3;

class Successor {
 public:
  // Forks. The next spawner is started from `host_mounts`, the host's mount namespace (borrowed).
  static Result<Successor> Start(const Config& config, int host_mounts);
  // The one that the program before this one, of the same process, has had (HandOver).
  static std::optional<Successor> HandedOver();

  // For the program that this process is about to execute; through the environment, which an older
  // program ignores.
  Status HandOver() const;
  // The spawner ends on purpose: nobody is to follow. Blocks until it is gone, for seconds at most.
  void Dismiss() const;
  pid_t pid() const { return pid_; }

 private:
  explicit Successor(pid_t pid) : pid_(pid) {}
  pid_t pid_;
};

}  // namespace atl::spawner
