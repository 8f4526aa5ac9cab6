// Writes a layer's tree as the tar that an image archive holds: the way back from ExtractLayer.
//
// The same tree gives the same bytes: names in the order of their bytes, whiteouts and opaque
// directories as the OCI image specification has them, whole seconds, nothing of the host. So the
// digest of that tar is the digest of the tree: what is stored can be compared with what was.
#pragma once

#include "images/report.h"
#include "images/unpack/limits.h"
#include "runtime/base/result.h"

namespace atl::images::unpack {

// Both borrowed. `output` -1: only the digest is wanted. The report's `content` is the tar's
// digest, `bytes` its length. kInvalidArgument: something that an archive cannot have.
Result<UnpackReport> PackTree(int root, int output, const ExtractLimits& limits);

}  // namespace atl::images::unpack
