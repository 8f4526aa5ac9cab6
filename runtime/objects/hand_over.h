// What libfuse takes for fusermount(1). A file system's program may not mount, so libfuse starts
// that to do it, and is sent the descriptor of /dev/fuse that belongs to the mount. Here the
// spawner has mounted already: what is sent is the descriptor that we were born with.
#pragma once

namespace atl::objects {

// The exit status. Undoing the mount is nobody's business here: 0.
int HandOver();

}  // namespace atl::objects
