#include "runtime/base/wiping_memory.h"

#include <malloc.h>

#include <cstdlib>
#include <cstring>

namespace atl {

void WipingFree(void* memory) {
  if (memory == nullptr) return;
  ::explicit_bzero(memory, ::malloc_usable_size(memory));
  std::free(memory);
}

// realloc(3) itself would free the former block without overwriting it.
void* WipingRealloc(void* memory, size_t size) {
  const size_t usable = memory == nullptr ? 0 : ::malloc_usable_size(memory);
  if (memory != nullptr && size != 0 && size <= usable && size >= usable / 2) return memory;
  void* const moved = size == 0 ? nullptr : std::malloc(size);
  if (moved == nullptr && size != 0) return nullptr;
  if (moved != nullptr && memory != nullptr)
    std::memcpy(moved, memory, size < usable ? size : usable);
  WipingFree(memory);
  return moved;
}

[[gnu::noinline]] void WipeStack() {
  char below[64 << 10];
  ::explicit_bzero(below, sizeof below);
}

}  // namespace atl
