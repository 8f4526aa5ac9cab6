// Compressed block devices in memory. They touch no disk and are gone when the host stops.
//
// Thread rule: stateless. As root.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"

namespace atl::spawner {

// kUnavailable: this kernel has none; the message says what to do.
Status FindZram();
// Returns the number of the next device, if nobody else adds one meanwhile.
uint32_t NextZram();
// Adds a device of size 0 and returns its number. It exists until it is removed.
Result<uint32_t> AddZram();
std::string ZramPath(uint32_t number);
Status SizeZram(uint32_t number, uint64_t bytes);
// Removes the device with its content. An absent one is not an error. EBUSY: it is in use.
Status RemoveZram(uint32_t number);

}  // namespace atl::spawner
