// A snapshot on its way from one daemon to another: an image, whose label says what else a restore
// wants to know. Every tool reads it as an image; only here it becomes a snapshot again.
//
// Pure functions, for any thread.
#pragma once

#include "images/image.h"
#include "runtime/base/result.h"
#include "runtime/sandbox/store/snapshot_store.h"

namespace atl::sandbox {

// What ImageStore::Export makes an archive of.
images::Image ImageOf(const Snapshot& snapshot);

// What the archive of a stranger says that it is: bounded, and in the form that a request has. It
// has no id, state or times. Its image's digest is that of the archive itself, whatever it was
// where it was taken: nobody can say of his archive that it is an image which others have pinned.
// kInvalidArgument.
Result<Snapshot> SnapshotOf(const images::Image& image);

}  // namespace atl::sandbox
