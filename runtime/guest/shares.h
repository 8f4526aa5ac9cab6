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
  // Mounts the root at kRootPath and the other shares in it. Nothing in the root leads out of it,
  // whatever links it has.
  static Result<Shares> Mount(const wire::vm::Go& go);

  // Writes everything that is dirty in them to the host. Returns the first error, or 0.
  int Sync() const;

 private:
  std::vector<UniqueFd> mounted_;
};

// The place of the root before it is moved; in the initramfs.
inline constexpr const char kRootPath[] = "/sandbox";

}  // namespace atl::guest
