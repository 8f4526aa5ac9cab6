// Waits until a socket can be written, on a Loop that watches for readable descriptors only: an
// epoll descriptor with nothing but the socket in it is readable when the socket is writable.
//
// Thread rule: on the loop.
#pragma once

#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::netpolicy {

class WriteWatch {
 public:
  WriteWatch() = default;
  WriteWatch(const WriteWatch&) = delete;
  WriteWatch& operator=(const WriteWatch&) = delete;
  ~WriteWatch() { Stop(); }

  // `callback` is called while `fd` (borrowed) is writable, or broken, until Stop.
  Status Start(Loop& loop, int fd, Loop::Callback callback);
  void Stop();

 private:
  Loop* loop_ = nullptr;
  Loop::Id id_ = 0;
  UniqueFd epoll_;
};

}  // namespace atl::netpolicy
