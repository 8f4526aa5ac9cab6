// Encrypted block devices, by the device mapper's own calls: the key is made here, handed to the
// kernel in the one ioctl that needs it, and stands in no file, no argument and no other process.
// cryptsetup would be a program of the distribution's to run as root, with a key to hand to it, for
// five calls.
//
// Thread rule: stateless. As root.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"

namespace atl::spawner {

// Has the kernel load what it needs of modules. kUnavailable: it has none, with what to do.
Status FindDmCrypt();
// `below`, the path of a block device, through AES-XTS with a new random key, which is gone with
// the device. The path of the new one. kAlreadyExists or EBUSY: there is one of that name.
Result<std::string> MakeDmCrypt(const std::string& name, const std::string& below, uint64_t bytes);
// At once, or as soon as nobody has it open. An absent one is not an error.
Status RemoveDmCrypt(const std::string& name);

}  // namespace atl::spawner
