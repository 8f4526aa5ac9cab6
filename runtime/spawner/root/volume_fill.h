// Fills a new named volume with the image's content at its mount point, as docker does.
#pragma once

#include <sys/types.h>

#include "runtime/base/result.h"

namespace atl::spawner {

// Copies content, owner and mode of the directory `image` to `volume`, unless the volume has been
// used: it is not empty, or its owner or mode are no longer those of a new one, whose owner is
// `owner`. Both descriptors are borrowed. `volume` is id-mapped and may be shared with running
// sandboxes. All or nothing: content that is too much for a create (kMost… in the source), or that
// no volume can hold, leaves the volume empty.
Status FillVolume(int image, int volume, uid_t owner);

}  // namespace atl::spawner
