// The transparent proxy for connections that a policy allows by name only. The nftables rules
// redirect them here. The proxy reads the name (TLS server name or HTTP Host), asks the gate,
// resolves the name itself and connects to the result. The address that the client chose does not
// matter. Nothing is decrypted. After the head, bytes move from socket to socket within the kernel
// (splice(2)).
//
// Sources are told apart by their address, which the rules guarantee. Everything that a client can
// make grow has a limit, per source and in total, and no number of sources can take the total.
//
// Thread rule: on the loop. No call blocks, and each wake-up does a bounded amount of work.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "netpolicy/address/endpoint.h"
#include "netpolicy/splice/pipe_pool.h"
#include "netpolicy/splice/proxy_gate.h"
#include "netpolicy/splice/splice_connection.h"
#include "runtime/base/acceptor.h"
#include "runtime/base/loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"

namespace atl::netpolicy {

// Returns the address that a redirected connection was going to (SO_ORIGINAL_DST). Empty if the
// connection was not redirected.
std::optional<Endpoint> OriginalDestination(int socket);

class SpliceProxy final : private SpliceConnections {
 public:
  struct Limits {
    // Each connection holds two descriptors, and up to four more while bytes wait in it.
    size_t connections = 4096;
    size_t connections_per_source = 256;
    // Connections of a source that have no server yet.
    size_t undialled_per_source = 64;
    size_t pipe_bytes = 256 * 1024;
    size_t idle_pipes = 64;
    SpliceTimeouts timeouts;
  };
  struct Config {
    std::vector<std::string> listen;  // addresses
    uint16_t port = 0;  // the same for all addresses; 0: any free port, see endpoints()
    Limits limits;
    SourceName source_of = &Endpoint::AddressBytes;
    // Tests replace these two.
    std::function<std::optional<Endpoint>(int socket)> original_destination = OriginalDestination;
    SpliceDial::Connect connect = [](int socket, const Endpoint& to) {
      return ::connect(socket, to.get(), to.size);
    };
  };

  // Listens; connections wait until Start.
  static Result<std::unique_ptr<SpliceProxy>> Open(Config config);
  SpliceProxy(const SpliceProxy&) = delete;
  SpliceProxy& operator=(const SpliceProxy&) = delete;
  ~SpliceProxy() override;

  // Starts to serve. Both must outlive this object.
  Status Start(Loop& loop, ProxyGate& gate);

  // The bound addresses, in the order of Config::listen.
  const std::vector<Endpoint>& endpoints() const { return endpoints_; }

  // Ends those connections of a source that its changed policy does not allow.
  void Rejudge(std::string_view source);
  // Sets the interceptor for new connections of the source. Null: none.
  void SetInterceptor(std::string_view source, std::shared_ptr<Interceptor> interceptor);
  // Ends all connections of a source whose sandbox is gone.
  void Forget(std::string_view source);

  const SpliceStats& totals() const { return stats_; }
  size_t connections() const { return connections_.size() - dead_.size(); }
  size_t sources() const { return sources_.size(); }

 private:
  struct Source {
    std::set<uint64_t> connections;
    size_t undialled = 0;
  };

  explicit SpliceProxy(Config config)
      : config_(std::move(config)), pipes_(config_.limits.pipe_bytes, config_.limits.idle_pipes) {}
  Status Listen();

  Loop& loop() override { return *loop_; }
  ProxyGate& gate() override { return *gate_; }
  PipePool& pipes() override { return pipes_; }
  int epoll() const override { return epoll_.get(); }
  const SpliceTimeouts& timeouts() const override { return config_.limits.timeouts; }
  const SpliceDial::Connect& connect() const override { return config_.connect; }
  SpliceStats& stats() override { return stats_; }
  bool IsOwn(const Endpoint& endpoint) const override;
  std::shared_ptr<Interceptor> InterceptorOf(const std::string& source) const override;
  void OnOpen(uint64_t id) override;
  void OnClosed(uint64_t id) override;
  void Schedule(uint64_t id) override;

  void OnReady();
  void OnEvent(uint64_t tag, uint32_t events);
  void Admit(UniqueFd socket, const Endpoint& from);
  void RunScheduled();
  void Wake(bool on);

  Config config_;
  PipePool pipes_;
  SpliceStats stats_;
  Loop* loop_ = nullptr;
  ProxyGate* gate_ = nullptr;
  Loop::Id watch_ = 0;
  UniqueFd epoll_;
  // Readable while a connection is scheduled or dead, so that the loop comes back after other work
  // had its turn.
  UniqueFd wake_;
  bool awake_ = false;
  bool in_turn_ = false;
  std::vector<Endpoint> endpoints_;
  std::vector<UniqueFd> listeners_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  uint64_t next_id_ = 1;
  std::unordered_map<std::string, Source> sources_;  // only sources that have connections
  std::unordered_map<std::string, std::shared_ptr<Interceptor>> interceptors_;
  std::unordered_map<uint64_t, std::unique_ptr<SpliceConnection>> connections_;
  std::deque<uint64_t> scheduled_;
  // closed connections, to be destroyed when none of their functions is on the stack
  std::vector<uint64_t> dead_;
};

}  // namespace atl::netpolicy
