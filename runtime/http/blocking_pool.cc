#include "runtime/http/blocking_pool.h"

#include <utility>

#include "runtime/base/thread.h"

namespace atl::http {

Result<std::unique_ptr<BlockingPool>> BlockingPool::Create(int threads) {
  std::unique_ptr<BlockingPool> pool(new BlockingPool());
  for (int i = 0; i < threads; ++i) {
    ATOLL_ASSIGN(std::thread thread, StartThread("blocking", [raw = pool.get()] { raw->Serve(); }));
    pool->threads_.push_back(std::move(thread));
  }
  return pool;
}

BlockingPool::~BlockingPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void BlockingPool::Run(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void BlockingPool::Serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    const std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace atl::http
