#include "runtime/http/pooled_loop.h"

#include "runtime/base/log.h"

namespace atl::http {

Result<std::unique_ptr<PooledLoop>> PooledLoop::Create(int pool_threads) {
  ATOLL_ASSIGN(std::unique_ptr<EventLoop> events, EventLoop::Create());
  ATOLL_ASSIGN(std::unique_ptr<BlockingPool> pool, BlockingPool::Create(pool_threads));
  return std::unique_ptr<PooledLoop>(new PooledLoop(std::move(events), std::move(pool)));
}

Loop::Id PooledLoop::Watch(int fd, uint32_t events, FdCallback callback) {
  auto id = events_->Watch(fd, events, std::move(callback));
  if (id) return *id;
  LogLine(LogLevel::kError, "cannot watch descriptor").Add(id.error());
  return 0;
}

void PooledLoop::RunBlocking(Callback work, Callback done) {
  pool_->Run([this, work = std::move(work), done = std::move(done)]() mutable {
    work();
    // Both may hold objects of the loop, so they are moved there to be destroyed on its thread.
    events_->Post([work = std::move(work), done = std::move(done)] { done(); });
  });
}

}  // namespace atl::http
