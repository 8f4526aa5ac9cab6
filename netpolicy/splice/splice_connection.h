// One connection through the splice proxy. It reads the name that the client wants, asks the gate,
// connects to the addresses of that name, and then moves bytes. For HTTP every request is judged,
// and no request may name another host than the first one. The server's bytes are not inspected.
//
// If the source has an interceptor, it gets the connection once both ends are connected. After that
// this object only cuts it if the policy says so.
//
// Thread rule: on the loop; nothing blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "netpolicy/address/endpoint.h"
#include "netpolicy/splice/http_requests.h"
#include "netpolicy/splice/interceptor.h"
#include "netpolicy/splice/pipe_pool.h"
#include "netpolicy/splice/proxy_gate.h"
#include "netpolicy/splice/splice_dial.h"
#include "netpolicy/splice/splice_pump.h"
#include "netpolicy/splice/tls_records.h"
#include "runtime/base/loop.h"
#include "runtime/base/unique_fd.h"

namespace atl::netpolicy {

struct SpliceTimeouts {
  // Time for a complete ClientHello or request head.
  int64_t head_us = 10'000'000;
  SpliceDial::Timeouts dial;
  // Longest time in which no byte moves in either direction.
  int64_t idle_us = int64_t{3600} * 1'000'000;
  // Time for the client to read a refusal, and for the server to finish after a later request was
  // refused.
  int64_t linger_us = 2'000'000;
};

struct SpliceStats {
  uint64_t accepted = 0;
  uint64_t over_limit = 0;  // closed at once
  uint64_t refused = 0;     // because of the policy, or of invalid bytes
  uint64_t failed = 0;      // no address, or no server answered
  uint64_t opened = 0;      // connected to a server
  uint64_t cut = 0;         // open connections that a changed policy ended
  uint64_t bytes_up = 0;    // delivered to servers
  uint64_t bytes_down = 0;  // delivered to clients
};

// State shared by all connections of a proxy. Outlives them.
class SpliceConnections {
 public:
  virtual ~SpliceConnections() = default;

  virtual Loop& loop() = 0;
  virtual ProxyGate& gate() = 0;
  virtual PipePool& pipes() = 0;
  virtual int epoll() const = 0;
  virtual const SpliceTimeouts& timeouts() const = 0;
  virtual const SpliceDial::Connect& connect() const = 0;
  virtual SpliceStats& stats() = 0;
  // Returns true if the proxy itself listens there.
  virtual bool IsOwn(const Endpoint& endpoint) const = 0;
  // Returns the interceptor of a source. Null: all its connections are spliced.
  virtual std::shared_ptr<Interceptor> InterceptorOf(const std::string& source) const = 0;

  // OnOpen: the connection has a server now. OnClosed: it has closed its descriptors and must be
  // destroyed, but later. Schedule: it has work to do, call Run.
  virtual void OnOpen(uint64_t id) = 0;
  virtual void OnClosed(uint64_t id) = 0;
  virtual void Schedule(uint64_t id) = 0;
};

class SpliceConnection {
 public:
  SpliceConnection(SpliceConnections& shared, uint64_t id, std::string source, Endpoint original,
                   UniqueFd client);
  SpliceConnection(const SpliceConnection&) = delete;
  SpliceConnection& operator=(const SpliceConnection&) = delete;
  ~SpliceConnection();

  // Tags of the two sockets in epoll(), where both are edge-triggered.
  static uint64_t ClientTag(uint64_t id) { return id << 2; }
  static uint64_t ServerTag(uint64_t id) { return id << 2 | 1; }

  bool Start();
  void OnClientEvents(uint32_t events);
  void OnServerEvents(uint32_t events);
  // Moves at most `budget` bytes in each direction. Calls Schedule if more remain. Returns how many
  // bytes were delivered.
  uint64_t Run(size_t budget);

  // Ends the connection if the policy would not allow it now.
  void Rejudge();
  // Ends the connection with a reset to both sides.
  void Abort();

  const std::string& source() const { return source_; }
  // True if the connection has or had a server.
  bool opened() const { return opened_; }

 private:
  // Limit of in_. It also bounds what a client may send before the answer to a change of protocol.
  static constexpr size_t kMaxBuffer = std::max(kMaxHttpHead, kMaxClientHello);

  enum class Phase : uint8_t {
    kHead,
    kResolving,
    kDialling,
    kOpen,
    kIntercepted,  // the interceptor moves the bytes; lease_ hangs up when it has finished
    kRefused,
    kClosed
  };
  // The parser that inspects what the client sends.
  enum class Mode : uint8_t {
    kOpaque,       // none
    kRequests,     // requests_
    kRecords,      // records_
    kAwaitAnswer,  // reading is paused: whether the bytes are HTTP depends on the server's answer
    kStopped,      // a request was refused; the rest is not sent
  };

  void ReadHead();
  void Inspect();
  void InspectHello();
  void InspectRequest();
  bool MayPass();
  bool ServerReachable();
  void Resolve();
  void OnResolveTimeout();
  void OnResolved(const std::vector<IpAddress>& addresses);
  void Dial(std::vector<Endpoint> targets);
  void OnDialled(UniqueFd server);
  void BeginSplicing();
  bool TakePeeked();
  void HandOver();

  void RunUp(size_t budget);
  void RunDown(size_t budget);
  bool Feed(size_t& budget);
  bool TakeRequests();
  bool TakeRecords();
  bool OnLaterHead();
  void AppendHead(std::string_view head);
  bool ReadAnswer();
  void EndIfDone();
  void ScheduleIfReady();

  void Refuse(const char* reason, uint8_t tls_alert);
  void RefuseLater(const char* reason, const std::string& name);
  void Fail(const char* reason);
  void Answer(const char* status, const char* reason, uint8_t tls_alert);
  void DrainRefused();
  void Close();
  void SetTimer(int64_t delay_us, void (SpliceConnection::*fire)());
  void OnHeadTimeout();
  void OnIdleCheck();

  SpliceConnections& shared_;
  const uint64_t id_;
  const std::string source_;
  const Endpoint original_;
  // If set, the client's first bytes are only peeked at and stay in the socket.
  const std::shared_ptr<Interceptor> interceptor_;
  UniqueFd client_, server_;
  UniqueFd lease_;

  Phase phase_ = Phase::kHead;
  bool opened_ = false;
  Loop::Id timer_ = 0;
  std::string in_;  // bytes from the client, not passed on yet
  bool http_ = false;
  size_t first_head_ = 0;  // bytes of in_ that are the first request's head or the hello
  std::string name_;       // "" for none
  bool hidden_ = false;    // the connection may hide another name
  ProxyGate::Id resolve_ = 0;
  std::unique_ptr<SpliceDial> dial_;

  Mode mode_ = Mode::kOpaque;
  HttpRequests requests_;
  TlsRecords records_;
  UpgradeAnswer answer_;
  SplicePump up_, down_;  // client to server, server to client
  bool up_ready_ = false, down_ready_ = false;
  bool scheduled_ = false;
  bool client_gone_ = false, server_gone_ = false;  // hung up, perhaps with bytes left to read
  int64_t active_us_ = 0;
  size_t drained_ = 0;
};

}  // namespace atl::netpolicy
