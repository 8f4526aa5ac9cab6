// Replaces fusermount(1) for libfuse. A file system's program may not mount, so libfuse starts
// fusermount to do it, and expects to be sent the descriptor of /dev/fuse that belongs to the
// mount. Here the spawner has mounted already, and this program sends the descriptor that it
// inherited.
#pragma once

namespace atl::objects {

// Returns the exit status. A request to unmount does nothing and returns 0.
int HandOver();

}  // namespace atl::objects
