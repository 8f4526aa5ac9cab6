// Reports the differences between two stacks of layers (tree_diff.h): as a list, or as an archive
// that is a layer on top of the older stack.
#pragma once

#include <cstddef>

#include "images/report.h"
#include "images/unpack/limits.h"
#include "runtime/base/result.h"
#include "runtime/wire/unpack.h"

namespace atl::images::unpack {

// The layers and the stacks that they belong to. Descriptors begin at `first`: `now` layers that
// only the newer stack has, `was` layers that only the older one has, and `both` layers that both
// have.
struct Stacks {
  int first = wire::kUnpackLayersFd;
  size_t now = 0;
  size_t was = 0;
  size_t both = 0;

  size_t size() const { return now + was + both; }
};

// Writes the differences to `out`, in records of wire/diff.h.
Result<UnpackReport> ListDiff(const Stacks& stacks, int out, const ExtractLimits& limits);
// Writes the differences to `out`, as a tar of the OCI image specification: deleted files are
// ".wh.NAME".
Result<UnpackReport> ArchiveDiff(const Stacks& stacks, int out, const ExtractLimits& limits);

}  // namespace atl::images::unpack
