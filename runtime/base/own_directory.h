// Creates directories in places where others may rename files.
#pragma once

#include <sys/types.h>

#include <string>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl {

// Creates directory `name` in `parent` with exactly this mode and opens it for reading. The result
// is certain to be the directory that was created, even if others may write to `parent`, so its
// owner may be changed. It belongs to the calling thread's file system uid. kFailedPrecondition:
// another directory took its place meanwhile, and was not touched. EEXIST: the name is taken.
Result<UniqueFd> MakeOwnDirectory(int parent, const std::string& name, mode_t mode);

// The second half of MakeOwnDirectory, separate for tests: opens directory `name` and sets its
// mode, if it is the one that was created.
Result<UniqueFd> OpenMadeDirectory(int parent, const std::string& name, mode_t mode);

}  // namespace atl
