// Round trips over loopback: the server with a trivial handler, and the proxy to a Unix socket with
// the upstream's connection kept and not. All in one process; client and server take turns, so the
// time is the sum of both sides and of two or four wake-ups.
#include <benchmark/benchmark.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <future>
#include <string>
#include <thread>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/http/client.h"
#include "runtime/http/server.h"

namespace atl::http {
namespace {

// Answers every request on a Unix socket with a fixed text, one connection at a time.
class FixedUpstream {
 public:
  explicit FixedUpstream(bool keep) : keep_(keep) {
    char name[] = "/tmp/atoll-bench-XXXXXX";
    ATOLL_CHECK(mkdtemp(name) != nullptr);
    directory_ = name;
    path_ = directory_ + "/s";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
    listener_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto* generic = reinterpret_cast<const sockaddr*>(&address);
    ATOLL_CHECK(bind(listener_.get(), generic, sizeof address) == 0);
    ATOLL_CHECK(listen(listener_.get(), 64) == 0);
    thread_ = std::thread([this] { Serve(); });
  }
  FixedUpstream(const FixedUpstream&) = delete;
  FixedUpstream& operator=(const FixedUpstream&) = delete;
  ~FixedUpstream() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
    unlink(path_.c_str());
    rmdir(directory_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  void Serve() {
    while (true) {
      const UniqueFd peer(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!peer) return;
      char bytes[4096];
      while (recv(peer.get(), bytes, sizeof bytes, 0) > 0) {
        const std::string answer = std::string("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n") +
                                   (keep_ ? "" : "Connection: close\r\n") + "\r\nok";
        if (send(peer.get(), answer.data(), answer.size(), MSG_NOSIGNAL) < 0 || !keep_) break;
      }
    }
  }

  const bool keep_;
  std::string directory_;
  std::string path_;
  UniqueFd listener_;
  std::thread thread_;
};

class LoopThread {
 public:
  explicit LoopThread(Handler handler) : loop_(AsioLoop::Create(1)) {
    signal(SIGPIPE, SIG_IGN);
    ServerConfig config;
    config.port = 0;
    auto server = loop_->Listen(config, std::move(handler));
    ATOLL_CHECK(server.has_value());
    server_ = std::move(*server);
    thread_ = std::thread([this] { loop_->Run(); });
  }
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;
  ~LoopThread() {
    std::promise<void> closed;
    loop_->Post([&] {
      server_.reset();
      closed.set_value();
    });
    closed.get_future().wait();
    loop_->Quit();
    thread_.join();
  }
  uint16_t port() const { return server_->port(); }

 private:
  std::unique_ptr<AsioLoop> loop_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

void RoundTrips(benchmark::State& state, uint16_t port) {
  auto client = Client::Create("http://127.0.0.1:" + std::to_string(port));
  ATOLL_CHECK(client.has_value());
  Client::Call call;
  call.target = "/v1/sandboxes/0f8fad5b-d9cb-469f-a165-70867728950e/proxy/44772/ping";
  call.headers.Add("User-Agent", "bench");
  call.headers.Add("Accept", "*/*");
  for (auto _ : state) {
    const auto response = (*client)->Send(call);
    if (!response || response->status != 200) state.SkipWithError("request failed");
  }
  state.SetItemsProcessed(state.iterations());
}

void BM_HttpRespond(benchmark::State& state) {
  LoopThread server([](const std::shared_ptr<Exchange>& exchange) {
    exchange->Respond({200, {}, "ok"});
  });
  RoundTrips(state, server.port());
}
BENCHMARK(BM_HttpRespond)->UseRealTime();

void Forwarded(benchmark::State& state, bool keep) {
  FixedUpstream upstream(keep);
  LoopThread server([&](const std::shared_ptr<Exchange>& exchange) {
    Upstream to;
    to.socket_path = upstream.path();
    to.target = "/ping";
    to.set_headers = {{"Host", "127.0.0.1"}};
    exchange->Forward(std::move(to));
  });
  RoundTrips(state, server.port());
}
void BM_HttpForwardKept(benchmark::State& state) {
  Forwarded(state, true);
}
BENCHMARK(BM_HttpForwardKept)->UseRealTime();
void BM_HttpForwardConnect(benchmark::State& state) {
  Forwarded(state, false);
}
BENCHMARK(BM_HttpForwardConnect)->UseRealTime();

// The upstream alone, to subtract.
void BM_UnixRoundTrip(benchmark::State& state) {
  FixedUpstream upstream(true);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, upstream.path().c_str(), sizeof address.sun_path - 1);
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  ATOLL_CHECK(connect(fd.get(), generic, sizeof address) == 0);
  const std::string request = "GET /ping HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
  char bytes[4096];
  for (auto _ : state) {
    ATOLL_CHECK(send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) > 0);
    ATOLL_CHECK(recv(fd.get(), bytes, sizeof bytes, 0) > 0);
  }
}
BENCHMARK(BM_UnixRoundTrip)->UseRealTime();

}  // namespace
}  // namespace atl::http

BENCHMARK_MAIN();
