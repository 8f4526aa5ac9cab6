// Tells what differs between two stacks of layers (tree_diff.h): as a list, or as an archive that
// is a layer over the one that it is compared with.
#pragma once

#include <cstddef>

#include "images/report.h"
#include "images/unpack/limits.h"
#include "runtime/base/result.h"
#include "runtime/wire/unpack.h"

namespace atl::images::unpack {

// Where the layers are, and of which stack: from `first` on, descriptors of `now` layers that only
// the one has, `was` that only the other has, `both` that both have.
struct Stacks {
  int first = wire::kUnpackLayersFd;
  size_t now = 0;
  size_t was = 0;
  size_t both = 0;

  size_t size() const { return now + was + both; }
};

// Into `out`, in records of wire/diff.h.
Result<UnpackReport> ListDiff(const Stacks& stacks, int out, const ExtractLimits& limits);
// Into `out`, as a tar of the OCI image specification: what is gone is ".wh.NAME".
Result<UnpackReport> ArchiveDiff(const Stacks& stacks, int out, const ExtractLimits& limits);

}  // namespace atl::images::unpack
