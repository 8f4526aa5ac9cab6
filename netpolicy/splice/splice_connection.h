// One connection through the splice proxy: finds out which name the client wants, asks the gate,
// connects to the addresses of that name, and moves bytes from then on. Of HTTP each request is
// judged, and none may name another host than the first; what the server sends is not looked at. Or
// it is handed to the source's interceptor when both ends are connected, and from then on only cut
// if the policy says so.
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
  // Until a ClientHello or a request's head is there, whole.
  int64_t head_us = 10'000'000;
  SpliceDial::Timeouts dial;
  // Nothing moved in either direction.
  int64_t idle_us = int64_t{3600} * 1'000'000;
  // For the client to take a refusal; for the server to end after a later request was refused.
  int64_t linger_us = 2'000'000;
};

struct SpliceStats {
  uint64_t accepted = 0;
  uint64_t over_limit = 0;  // closed at once
  uint64_t refused = 0;     // by policy, or for what they sent
  uint64_t failed = 0;      // no address, or none that answered
  uint64_t opened = 0;      // connected to a server
  uint64_t cut = 0;         // open ones that a changed policy ended
  uint64_t bytes_up = 0;    // delivered to servers
  uint64_t bytes_down = 0;  // delivered to clients
};

// What all connections of a proxy share; outlives them.
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
  // The proxy itself listens there.
  virtual bool IsOwn(const Endpoint& endpoint) const = 0;
  // Null: everything of the source is spliced.
  virtual std::shared_ptr<Interceptor> InterceptorOf(const std::string& source) const = 0;

  // `id` has a server now / has closed its descriptors and is to be destroyed, later / has
  // something to do: Run.
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

  // Both sockets are in epoll(), edge-triggered, with these tags.
  static uint64_t ClientTag(uint64_t id) { return id << 2; }
  static uint64_t ServerTag(uint64_t id) { return id << 2 | 1; }

  bool Start();
  void OnClientEvents(uint32_t events);
  void OnServerEvents(uint32_t events);
  // Moves bytes, so many in each direction at most; Schedule is called if that was not all. Returns
  // how many were delivered.
  uint64_t Run(size_t budget);

  // Ends it if it would not be let through now.
  void Rejudge();
  // With a reset to both sides.
  void Abort();

  const std::string& source() const { return source_; }
  // Has a server, or had one.
  bool opened() const { return opened_; }

 private:
  // Also what a client may have sent ahead of the answer to a change of protocol.
  static constexpr size_t kMaxBuffer = std::max(kMaxHttpHead, kMaxClientHello);

  enum class Phase : uint8_t {
    kHead,
    kResolving,
    kDialling,
    kOpen,
    kIntercepted,  // somebody else moves the bytes; lease_ tells when that is over
    kRefused,
    kClosed
  };
  // Who looks at what the client sends.
  enum class Mode : uint8_t {
    kOpaque,       // nobody
    kRequests,     // requests_
    kRecords,      // records_
    kAwaitAnswer,  // it waits: whether it is HTTP depends on the server's answer
    kStopped,      // a request was refused, the rest is not sent
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
  // If there is one, what the client sends first is looked at and left in the socket.
  const std::shared_ptr<Interceptor> interceptor_;
  UniqueFd client_, server_;
  UniqueFd lease_;

  Phase phase_ = Phase::kHead;
  bool opened_ = false;
  Loop::Id timer_ = 0;
  std::string in_;  // from the client, not yet passed on
  bool http_ = false;
  size_t first_head_ = 0;  // bytes of in_ that are the first request's head, or the hello
  std::string name_;       // "" for none
  bool hidden_ = false;    // may hide another name
  ProxyGate::Id resolve_ = 0;
  std::unique_ptr<SpliceDial> dial_;

  Mode mode_ = Mode::kOpaque;
  HttpRequests requests_;
  TlsRecords records_;
  UpgradeAnswer answer_;
  SplicePump up_, down_;  // client to server, server to client
  bool up_ready_ = false, down_ready_ = false;
  bool scheduled_ = false;
  bool client_gone_ = false, server_gone_ = false;  // hung up, maybe with bytes left to read
  int64_t active_us_ = 0;
  size_t drained_ = 0;
};

}  // namespace atl::netpolicy
