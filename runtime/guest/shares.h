// File systems that the host shares with the machine by virtiofs.
#pragma once

#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/wire/vm.h"

namespace atl::guest {

// Mounted shares. Movable.
class Shares {
 public:
  // Mounts the root at kRootPath and the other shares in it, and go.sessions at kSessionsPath.
  // Nothing in the root leads out of it, whatever links it has.
  static Result<Shares> Mount(const wire::vm::Go& go);

  // Writes everything that is dirty in them to the host. Returns the first error, or 0.
  int Sync() const;

 private:
  std::vector<UniqueFd> mounted_;
};

// Places in the initramfs: the root before it is moved, and what isolated sessions write.
inline constexpr const char kRootPath[] = "/sandbox";
inline constexpr const char kSessionsPath[] = "/sessions";

}  // namespace atl::guest
