// Writes an archive of 'docker save' down as the OCI layout of the same images, so that everybody
// after the unpacker reads one form: blobs under their digests, a manifest for each image and an
// index with a name for each of its tags. The manifest is made here, and so is its digest: the
// original one is not in such an archive.
#pragma once

#include "images/unpack/members.h"
#include "runtime/base/result.h"

namespace atl::images::unpack {

// `directory`: that of `members`, which have a manifest.json and no index.json.
Status WriteOciLayout(const Members& members, int directory);

}  // namespace atl::images::unpack
