// Converts an archive of 'docker save' into the OCI layout of the same images, so that all later
// code reads one format: blobs under their digests, a manifest for each image, and an index with an
// entry for each of its tags. The manifest and its digest are made here, because such an archive
// does not have the original one.
#pragma once

#include "images/unpack/members.h"
#include "runtime/base/result.h"

namespace atl::images::unpack {

// `directory`: the one that holds `members`, which have a manifest.json and no index.json.
Status WriteOciLayout(const Members& members, int directory);

}  // namespace atl::images::unpack
