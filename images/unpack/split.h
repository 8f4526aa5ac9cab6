// Splits an image archive: index.json and blobs/sha256/HEX of an OCI layout become the files
// "index.json" and "HEX" in one flat directory. An archive of 'docker save' is converted to the
// same form (docker_archive.h). All other members are skipped.
#pragma once

#include "images/report.h"
#include "images/unpack/limits.h"
#include "runtime/base/result.h"

namespace atl::images::unpack {

Result<UnpackReport> SplitArchive(int input, int directory, const ExtractLimits& limits);

}  // namespace atl::images::unpack
