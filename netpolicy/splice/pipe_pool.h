// Pipes for splice(2), which needs one between two sockets. A connection holds a pipe only while
// bytes are in it, so idle connections cost no descriptors and few pipes serve many connections.
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
  // `pipe_bytes`: wanted capacity of a pipe. The kernel may give less, because all pipes of a user
  // without CAP_SYS_RESOURCE share a limit (fs.pipe-user-pages-soft).
  PipePool(size_t pipe_bytes, size_t max_idle) : pipe_bytes_(pipe_bytes), max_idle_(max_idle) {}

  // Returns an empty pipe, non-blocking at both ends.
  Result<sys::Pipe> Get();
  // Returns a pipe to the pool. It must be empty: bytes left in it would appear in another
  // connection.
  void Put(sys::Pipe pipe);

  size_t idle() const { return idle_.size(); }

 private:
  size_t pipe_bytes_;
  size_t max_idle_;
  std::vector<sys::Pipe> idle_;
};

}  // namespace atl::netpolicy
