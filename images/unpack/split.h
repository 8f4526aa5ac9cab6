// Takes an image archive apart: index.json and blobs/sha256/HEX of an OCI layout become files
// "index.json" and "HEX" in one flat directory; an archive of 'docker save' is written down in the
// same form (docker_archive.h). What else the archive holds is passed over.
#pragma once

#include "images/report.h"
#include "images/unpack/limits.h"
#include "runtime/base/result.h"

namespace atl::images::unpack {

Result<UnpackReport> SplitArchive(int input, int directory, const ExtractLimits& limits);

}  // namespace atl::images::unpack
