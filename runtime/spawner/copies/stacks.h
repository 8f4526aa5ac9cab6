// The two stacks of layers that a difference is about: what a sandbox has written with the layers
// that it is made of, and those that it is compared with. All of them as mounts that cannot be
// written to, each with nothing but its layer in it.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/spawner/host/host.h"
#include "runtime/spawner/sandboxes/sandboxes.h"
#include "runtime/wire/request.h"

namespace atl::spawner {

struct Stacks {
  std::vector<UniqueFd> layers;  // as runtime/wire/unpack.h wants them; gone with these
  size_t now = 0;
  size_t was = 0;
  size_t both = 0;
};
// kFailedPrecondition: the sandbox does not live. kNotFound: a layer is not there.
Result<Stacks> OpenStacks(const Host& host, const Sandboxes& sandboxes,
                          const wire::DiffUpper& wanted);

}  // namespace atl::spawner
