// How layers are called. Apart from the plan: most who name a layer have nothing to do with one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace atl::wire {

// Layers are numbered directories in the store.
using LayerId = uint32_t;
// overlayfs takes 500 lowers, the option string of mount(2) one page.
inline constexpr size_t kMaxLayers = 128;

}  // namespace atl::wire
