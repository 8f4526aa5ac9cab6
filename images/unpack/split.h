// Takes an OCI image archive apart: oci-layout, index.json and blobs/sha256/HEX become files
// "oci-layout", "index.json" and "HEX" in one flat directory. What else the archive holds is
// passed over.
#pragma once

#include "images/report.h"
#include "images/unpack/limits.h"
#include "runtime/base/result.h"

namespace atl::images::unpack {

Result<UnpackReport> SplitArchive(int input, int directory, const ExtractLimits& limits);

}  // namespace atl::images::unpack
