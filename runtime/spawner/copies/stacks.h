// The two stacks of layers that a difference compares: what a sandbox has written on top of its
// layers, and the layers that it is compared with. Each layer is a read-only mount that shows
// nothing else and ends with its descriptor.
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
  std::vector<UniqueFd> layers;  // ordered as in runtime/wire/unpack.h
  size_t now = 0;
  size_t was = 0;
  size_t both = 0;
};
// kFailedPrecondition: the sandbox has ended. kNotFound: a layer does not exist.
Result<Stacks> OpenStacks(const Host& host, const Sandboxes& sandboxes,
                          const wire::DiffUpper& wanted);

}  // namespace atl::spawner
