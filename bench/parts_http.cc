// Measures round trips over loopback: the server with a trivial handler, and the proxy to a Unix
// socket, with the upstream's connection kept and not kept. Client and server run in one process
// and take turns, so a sample is the sum of both sides and of two or four wake-ups.
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <future>
#include <thread>

#include "bench/parts.h"
#include "runtime/base/unique_fd.h"
#include "runtime/http/client.h"
#include "runtime/http/pooled_loop.h"
#include "runtime/http/server.h"

namespace atl::bench {
namespace {

using http::Exchange;

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
  explicit LoopThread(http::Handler handler) : loop_(*http::PooledLoop::Create(1)) {
    signal(SIGPIPE, SIG_IGN);
    http::ServerConfig config;
    config.port = 0;
    auto server = http::Server::Listen(*loop_, config, std::move(handler));
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
  std::unique_ptr<http::PooledLoop> loop_;
  std::unique_ptr<http::Server> server_;
  std::thread thread_;
};

// A server, the upstream that it forwards to, and a client.
struct Chain {
  explicit Chain(bool keep) : upstream(keep) {}
  FixedUpstream upstream;
  std::unique_ptr<LoopThread> server;
  std::unique_ptr<http::Client> client;
};

Result<std::shared_ptr<Chain>> Connect(bool forward, bool keep) {
  auto chain = std::make_shared<Chain>(keep);
  if (forward) {
    chain->server = std::make_unique<LoopThread>(
        [path = chain->upstream.path()](const std::shared_ptr<Exchange>& exchange) {
          http::Upstream to;
          to.socket_path = path;
          to.target = "/ping";
          to.set_headers = {{"Host", "127.0.0.1"}};
          exchange->Forward(std::move(to));
        });
  } else {
    chain->server = std::make_unique<LoopThread>([](const std::shared_ptr<Exchange>& exchange) {
      exchange->Respond({200, {}, "ok"});
    });
  }
  ATOLL_ASSIGN(chain->client,
               http::Client::Create("http://127.0.0.1:" + std::to_string(chain->server->port())));
  return chain;
}

Status RoundTrip(http::Client& client) {
  http::Client::Call call;
  call.target = "/v1/sandboxes/0f8fad5b-d9cb-469f-a165-70867728950e/proxy/44772/ping";
  call.headers.Add("User-Agent", "bench");
  call.headers.Add("Accept", "*/*");
  ATOLL_ASSIGN(const auto response, client.Send(call));
  if (response.status == 200) return {};
  return Fail(Code::kInternal, "answered with " + std::to_string(response.status));
}

// The server exists only while its row is measured.
void AddRoundTrips(const std::string& name, bool forward, bool keep, Phases* phases) {
  const auto chain = std::make_shared<std::shared_ptr<Chain>>();
  phases->push_back({.run = [=](Take&) -> Status {
    ATOLL_ASSIGN(*chain, Connect(forward, keep));
    return {};
  }});
  phases->push_back(Part(name, "request → answer, in one process", 30, 200,
                         [=] { return RoundTrip(*(*chain)->client); }));
  phases->push_back({.run = [=](Take&) -> Status {
    chain->reset();
    return {};
  }});
}

}  // namespace

void AddHttpParts(Phases* phases) {
  AddRoundTrips("http: answered", false, true, phases);
  AddRoundTrips("http: forwarded, connection kept", true, true, phases);
  AddRoundTrips("http: forwarded, new connection", true, false, phases);
}

}  // namespace atl::bench
