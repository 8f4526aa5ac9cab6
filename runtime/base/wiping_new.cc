// Replaces the allocation functions of C++ (runtime/base/wiping_memory.h). Linked into programs
// that hold secrets. An executable's own definitions also serve the shared libraries that it loads.
#include <cstdlib>
#include <new>

#include "runtime/base/wiping_memory.h"

namespace atl {
namespace {

template <typename Allocate>
void* AllocateOrThrow(Allocate allocate) {
  for (;;) {
    if (void* const memory = allocate()) return memory;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

}  // namespace
}  // namespace atl

// The standard library's other forms (arrays, sizes, nothrow) call these ([new.delete]).

void* operator new(size_t size) {
  return atl::AllocateOrThrow([size] { return std::malloc(size == 0 ? 1 : size); });
}

void* operator new(size_t size, std::align_val_t alignment) {
  const auto align = static_cast<size_t>(alignment);
  const size_t rounded = (size + align - 1) / align * align;
  return atl::AllocateOrThrow(
      [=] { return std::aligned_alloc(align, rounded == 0 ? align : rounded); });
}

void operator delete(void* memory) noexcept {
  atl::WipingFree(memory);
}

void operator delete(void* memory, size_t) noexcept {
  atl::WipingFree(memory);
}

void operator delete(void* memory, std::align_val_t) noexcept {
  atl::WipingFree(memory);
}

void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  atl::WipingFree(memory);
}
