// Makes a layer of the directory that a sandbox writes to. It copies ahead while the sandbox runs,
// asks to have it paused, and then copies what has changed since (protocol: runtime/wire/unpack.h).
// A small directory is not copied ahead, because reading it twice and writing back before takes
// longer than the copy.
#pragma once

#include "images/report.h"
#include "images/unpack/limits.h"
#include "runtime/base/result.h"

namespace atl::images::unpack {

// All descriptors are borrowed. `conversation`: a socket to the process that pauses the sandbox.
// `lasting`: the result must be on disk before it is reported.
Result<UnpackReport> CopyUpper(int from, int to, int conversation, const ExtractLimits& limits,
                               bool lasting);

}  // namespace atl::images::unpack
