// Extracts one layer: decompresses, hashes, reads the tar, checks every entry and passes it to
// LayerTree.
#pragma once

#include "images/report.h"
#include "images/unpack/limits.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::images::unpack {

Result<UnpackReport> ExtractLayer(int input, UniqueFd directory, const ExtractLimits& limits);

}  // namespace atl::images::unpack
