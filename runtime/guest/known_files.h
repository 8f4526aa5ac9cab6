// The files that the guest's kernel remembers. The host's file server has a descriptor open for
// each of them, whose file stays in the memory of the host's kernel, until the guest forgets the
// file. A guest forgets by itself only when its own memory is short.
#pragma once

#include <cstdint>

namespace atl::guest {

class KnownFiles {
 public:
  // Takes what the kernel remembers now as its own. Construct it as the sandbox starts.
  KnownFiles();

  // Forgets all files that nobody uses if the kernel remembers too many. Blocks while it does.
  // Returns the milliseconds until the next call: few while the guest learns of files. A machine
  // that wakes often never counts as idle.
  int Bound();

 private:
  const uint64_t own_;  // the kernel's own inodes, thousands of tracefs
  uint64_t used_ = 0;   // no bound below it makes sense
  uint64_t seen_ = 0;   // inodes at the last look
};

}  // namespace atl::guest
