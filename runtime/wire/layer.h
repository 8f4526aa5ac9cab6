// Ids of layers. Separate from plan.h, because most code that names a layer does not use plans.
#pragma once

#include <cstddef>
#include <cstdint>

namespace atl::wire {

// The number of a layer's directory in the store.
using LayerId = uint32_t;
// overlayfs accepts 500 lower directories, but the option string of mount(2) is limited to one
// page.
inline constexpr size_t kMaxLayers = 128;

}  // namespace atl::wire
