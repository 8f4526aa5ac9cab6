// Writes a layer's tree as the tar of an image archive: the reverse of ExtractLayer.
//
// The same tree always gives the same bytes: names sorted by their bytes, whiteouts and opaque
// directories as in the OCI image specification, times in whole seconds, nothing of the host.
// Therefore the digest of the tar is a digest of the tree, and a stored tree can be compared with
// an imported one.
#pragma once

#include "images/report.h"
#include "images/unpack/limits.h"
#include "runtime/base/result.h"

namespace atl::images::unpack {

// Both are borrowed. `output` -1: computes only the digest. In the report, `content` is the tar's
// digest and `bytes` its length. kInvalidArgument: a file that an archive cannot hold.
Result<UnpackReport> PackTree(int root, int output, const ExtractLimits& limits);

}  // namespace atl::images::unpack
