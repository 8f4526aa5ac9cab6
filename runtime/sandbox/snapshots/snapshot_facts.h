// The exchange format of snapshots between daemons: an image, with a label for the other facts that
// a restore needs. Other tools read it as a plain image; a daemon makes a snapshot of it.
//
// Pure functions, for any thread.
#pragma once

#include "images/image.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/store/snapshot_store.h"

namespace atl::sandbox {

// Returns the image that ImageStore::Export archives.
images::Image ImageOf(const Snapshot& snapshot);

// Returns the snapshot that the archive of a client describes. The input is hostile, so all facts
// are bounded and validated like a request. The result has no id, state or times. Its image digest
// is the digest of the archive itself, not the original one, so no client can pass off an archive
// as an image that others have pinned. kInvalidArgument.
Result<Snapshot> SnapshotOf(const images::Image& image);

}  // namespace atl::sandbox
