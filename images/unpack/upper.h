// Makes a layer of the directory that a sandbox writes to: copies ahead while it runs, says so,
// waits until it stands still, copies what has changed since, says so (runtime/wire/unpack.h). Of
// one that holds little nothing is copied ahead: looking twice, and writing back before, takes
// longer than the copy.
#pragma once

#include "images/report.h"
#include "images/unpack/limits.h"
#include "runtime/base/result.h"

namespace atl::images::unpack {

// All borrowed. `conversation`: a socket to whoever holds the sandbox still. `lasting`: what is
// reported is on the disk.
Result<UnpackReport> CopyUpper(int from, int to, int conversation, const ExtractLimits& limits,
                               bool lasting);

}  // namespace atl::images::unpack
