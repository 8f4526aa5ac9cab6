// A program that is linked with wiping_new.cc overwrites all memory that it frees: what strings,
// vectors, JSON trees and queues leave behind when they grow or end. So no secret outlives what
// holds it, whichever library has made the copies.
//
// The stack is never freed, so call WipeStack behind code that has worked on a secret there. Thread
// rule: any thread.
#pragma once

#include <cstddef>

namespace atl {

// Like free(3) and realloc(3), for libraries in C that let their own be replaced.
void WipingFree(void* memory);
void* WipingRealloc(void* memory, size_t size);

// Overwrites what calls of the caller have left on the stack, 64 KiB deep: strings of up to 15
// bytes are kept there.
void WipeStack();

}  // namespace atl
