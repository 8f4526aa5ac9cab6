// Directories that are made where others may rename things.
#pragma once

#include <sys/types.h>

#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl {

// Makes directory `name` in `parent`, with just this mode, and opens it for reading: the directory
// that was made, so that its owner may be changed, whoever else may write to `parent`. It belongs
// to the calling thread's file identity. kFailedPrecondition: another directory came into its place
// meanwhile, and nothing was done to that one. EEXIST: the name is taken.
Result<UniqueFd> MakeOwnDirectory(int parent, const std::string& name, mode_t mode);

// Its second half, apart for its test: opens directory `name` and gives it its mode, if it is the
// one that was made.
Result<UniqueFd> OpenMadeDirectory(int parent, const std::string& name, mode_t mode);

}  // namespace atl
