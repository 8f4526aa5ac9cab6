#include "runtime/http/blocking_pool.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

#include "runtime/base/result.h"

namespace atl::http {

BlockingPool::BlockingPool(int threads) {
  // A new thread inherits the mask of its creator. Therefore signals are blocked here, before, and
  // not in the thread, so that none can arrive there in between.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ATOLL_CHECK(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Serve(); });
    pthread_setname_np(threads_.back().native_handle(), "blocking");
  }
  ATOLL_CHECK(pthread_sigmask(SIG_SETMASK, &before, nullptr) == 0);
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
