// Compressed block devices in memory, which touch no disk and forget all when the host stops.
//
// Thread rule: stateless. As root.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"

namespace atl::spawner {

// kUnavailable: this kernel has none, with what to do about it.
Status FindZram();
// The number that the next one will have, if nobody else adds one meanwhile.
uint32_t NextZram();
// A new one, of size 0, by its number; it is there until it is removed.
Result<uint32_t> AddZram();
std::string ZramPath(uint32_t number);
Status SizeZram(uint32_t number, uint64_t bytes);
// With what it holds. An absent one is not an error. EBUSY: it is in use.
Status RemoveZram(uint32_t number);

}  // namespace atl::spawner
