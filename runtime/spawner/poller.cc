#include "runtime/spawner/poller.h"

#include <sys/epoll.h>

#include <cerrno>

namespace atl::spawner {

Result<Poller> Poller::Create() {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return FailSys("epoll_create1");
  return Poller(std::move(epoll));
}

Status Poller::Add(int fd, Callback callback) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return FailSys("epoll_ctl ADD");
  callbacks_[fd] = std::move(callback);
  return {};
}

void Poller::Await(int fd, bool readable, bool writable) {
  epoll_event event{};
  event.events = (readable ? EPOLLIN : 0U) | (writable ? EPOLLOUT : 0U);
  event.data.fd = fd;
  ATOLL_CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0);
}

void Poller::Remove(int fd) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  callbacks_.erase(fd);
}

Status Poller::RunOnce(int timeout_ms) {
  epoll_event events[32];
  const int n = ::epoll_wait(epoll_.get(), events, 32, timeout_ms);
  if (n < 0) return errno == EINTR ? Status() : FailSys("epoll_wait");
  for (int i = 0; i < n; ++i) {
    // One callback may remove another's descriptor, or its own: look each up, and keep it while it
    // runs.
    const auto found = callbacks_.find(events[i].data.fd);
    if (found == callbacks_.end()) continue;
    const Callback callback = found->second;
    callback();
  }
  return {};
}

}  // namespace atl::spawner
