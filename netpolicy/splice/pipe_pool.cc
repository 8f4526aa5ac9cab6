#include "netpolicy/splice/pipe_pool.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace atl::netpolicy {

Result<sys::Pipe> PipePool::Get() {
  if (!idle_.empty()) {
    sys::Pipe pipe = std::move(idle_.back());
    idle_.pop_back();
    return pipe;
  }
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) return FailSys("pipe2 for a spliced connection");
  sys::Pipe pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
  // The kernel refuses this once the user's pipes together are too large. A small pipe only costs
  // more calls.
  (void)::fcntl(pipe.write.get(), F_SETPIPE_SZ, static_cast<int>(pipe_bytes_));
  return pipe;
}

void PipePool::Put(sys::Pipe pipe) {
  if (idle_.size() < max_idle_) idle_.push_back(std::move(pipe));
}

}  // namespace atl::netpolicy
