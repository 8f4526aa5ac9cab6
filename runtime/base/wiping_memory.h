// A program that is linked with wiping_new.cc overwrites all memory that it frees, including what
// strings, vectors, JSON trees and queues free when they grow. Therefore no secret outlives the
// object that holds it, whichever library made copies.
//
// The stack is never freed, so call WipeStack after code that has handled a secret on it.
//
// Thread rule: any thread.
#pragma once

#include <cstddef>

namespace atl {

// Like free(3) and realloc(3), for C libraries that allow them to be replaced.
void WipingFree(void* memory);
void* WipingRealloc(void* memory, size_t size);

// Overwrites 64 KiB of the stack below the caller, where earlier calls have left strings of up to
// 15 bytes and other locals.
void WipeStack();

}  // namespace atl
