// Pipes for splice(2), which needs one between two sockets. A connection holds one only while bytes
// are in it; so idle connections cost no descriptors for them, and few pipes serve many.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/sys.h"

namespace atl::netpolicy {

class PipePool {
 public:
  // `pipe_bytes`: what a pipe is to hold. The kernel may give less: all pipes of a user without
  // CAP_SYS_RESOURCE share a limit (fs.pipe-user-pages-soft).
  PipePool(size_t pipe_bytes, size_t max_idle) : pipe_bytes_(pipe_bytes), max_idle_(max_idle) {}

  // Empty, non-blocking at both ends.
  Result<sys::Pipe> Get();
  // Must be empty: what is left in it would come out in another connection.
  void Put(sys::Pipe pipe);

  size_t idle() const { return idle_.size(); }

 private:
  size_t pipe_bytes_;
  size_t max_idle_;
  std::vector<sys::Pipe> idle_;
};

}  // namespace atl::netpolicy
