#include "netpolicy/dns/write_watch.h"

#include <sys/epoll.h>

#include <utility>

namespace atl::netpolicy {

Status WriteWatch::Start(Loop& loop, int fd, Loop::Callback callback) {
  Stop();
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return FailSys("epoll_create1");
  epoll_event event{};
  event.events = EPOLLOUT;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0) return FailSys("epoll_ctl");
  epoll_ = std::move(epoll);
  loop_ = &loop;
  id_ = loop.WatchReadable(epoll_.get(), std::move(callback));
  return {};
}

void WriteWatch::Stop() {
  if (id_ == 0) return;
  loop_->Unwatch(std::exchange(id_, 0));
  epoll_.reset();
}

}  // namespace atl::netpolicy
