// The Loop over one io_context. Internal: others see http::AsioLoop.
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <memory>
#include <unordered_map>

#include "runtime/http/asio.h"
#include "runtime/http/blocking_pool.h"
#include "runtime/http/server.h"

namespace atl::http {

class AsioLoopImpl final : public AsioLoop {
 public:
  explicit AsioLoopImpl(int pool_threads);
  ~AsioLoopImpl() override;

  Id WatchReadable(int fd, Callback callback) override;
  void Unwatch(Id id) override;
  Id After(int64_t delay_us, Callback callback) override;
  void Cancel(Id id) override;
  void Post(Callback callback) override;
  void RunBlocking(Callback work, Callback done) override;
  void Run() override;
  void Quit() override;
  Result<std::unique_ptr<Server>> Listen(const ServerConfig& config, Handler handler) override;

  asio::io_context& io() { return io_; }

 private:
  using Descriptor = asio::posix::basic_stream_descriptor<Executor>;
  struct Watch {
    Watch(asio::io_context& io, Callback function) : fd(io), callback(std::move(function)) {}
    Descriptor fd;
    Callback callback;
    bool active = true;
  };
  static void AwaitReadable(const std::shared_ptr<Watch>& watch);

  // The hint says that one thread runs the context; posting from others stays allowed.
  asio::io_context io_{1};
  asio::executor_work_guard<Executor> keep_running_;
  Id next_id_ = 1;
  std::unordered_map<Id, std::shared_ptr<Watch>> watches_;
  std::unordered_map<Id, std::unique_ptr<Timer>> timers_;
  BlockingPool pool_;  // last: its threads post to io_
};

}  // namespace atl::http
