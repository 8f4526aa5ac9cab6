#include "runtime/http/asio_loop.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "runtime/base/log.h"

namespace atl::http {

AsioLoopImpl::AsioLoopImpl(int pool_threads)
    : keep_running_(io_.get_executor()), pool_(pool_threads) {}

AsioLoopImpl::~AsioLoopImpl() {
  for (auto& [id, watch] : watches_) {
    watch->active = false;
    if (watch->fd.is_open()) watch->fd.release();
  }
}

Loop::Id AsioLoopImpl::WatchReadable(int fd, Callback callback) {
  auto watch = std::make_shared<Watch>(io_, std::move(callback));
  ErrorCode error;
  watch->fd.assign(fd, error);
  if (error) {
    // The descriptor is watched already, or epoll's limit of watches is reached.
    LogLine(LogLevel::kError, "cannot watch descriptor")
        .Add("fd", fd)
        .Add("error", error.message());
    return 0;
  }
  const Id id = next_id_++;
  watches_.emplace(id, watch);
  AwaitReadable(watch);
  return id;
}

void AsioLoopImpl::AwaitReadable(const std::shared_ptr<Watch>& watch) {
  // Asio's epoll set is edge-triggered, but starting a wait re-arms it, so a descriptor that is
  // still readable reports again: level-triggered for the caller.
  watch->fd.async_wait(asio::posix::descriptor_base::wait_read, [watch](const ErrorCode& error) {
    if (!watch->active || error) return;  // an error: closed under us, or not a kind that can wait
    watch->callback();
    if (watch->active) AwaitReadable(watch);
  });
}

void AsioLoopImpl::Unwatch(Id id) {
  const auto found = watches_.find(id);
  if (found == watches_.end()) return;
  found->second->active = false;
  found->second->fd.release();  // the descriptor stays open: it was borrowed
  watches_.erase(found);
}

Loop::Id AsioLoopImpl::After(int64_t delay_us, Callback callback) {
  const Id id = next_id_++;
  auto timer = std::make_unique<Timer>(io_, std::chrono::microseconds(delay_us));
  timer->async_wait([this, id, callback = std::move(callback)](const ErrorCode&) {
    // A cancelled timer may have fired already and wait in the queue: the map decides.
    if (timers_.erase(id) != 0) callback();
  });
  timers_.emplace(id, std::move(timer));
  return id;
}

void AsioLoopImpl::Cancel(Id id) {
  timers_.erase(id);
}

void AsioLoopImpl::Post(Callback callback) {
  asio::post(io_, std::move(callback));
}

void AsioLoopImpl::RunBlocking(Callback work, Callback done) {
  pool_.Run([this, work = std::move(work), done = std::move(done)]() mutable {
    work();
    // Both may hold objects of the loop: they are moved there, to die there.
    asio::post(io_, [work = std::move(work), done = std::move(done)] { done(); });
  });
}

void AsioLoopImpl::Run() {
  io_.restart();
  io_.run();
}

void AsioLoopImpl::Quit() {
  io_.stop();
}

std::unique_ptr<AsioLoop> AsioLoop::Create(int pool_threads) {
  return std::make_unique<AsioLoopImpl>(pool_threads);
}

}  // namespace atl::http
