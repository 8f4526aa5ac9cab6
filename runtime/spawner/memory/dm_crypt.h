// Encrypted block devices, by the device mapper's own calls. The key is made here and handed to the
// kernel in the one ioctl that needs it. It stands in no file, no argument and no other process.
// cryptsetup would be one more program to run as root, with a key to hand to it, for five calls.
//
// Thread rule: stateless. As root.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"

namespace atl::spawner {

// Has the kernel load the modules that it needs. kUnavailable: it has none; the message says what
// to do.
Status FindDmCrypt();
// Makes an encrypted device on top of `below`, the path of a block device, through AES-XTS with a
// new random key, which is gone with the device. Returns the path of the new device. kAlreadyExists
// or EBUSY: the name is taken.
Result<std::string> MakeDmCrypt(const std::string& name, const std::string& below, uint64_t bytes);
// Removes it at once, or as soon as its last user closes it. An absent one is not an error.
Status RemoveDmCrypt(const std::string& name);

}  // namespace atl::spawner
