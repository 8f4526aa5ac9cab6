// One HTTP/1.1 connection: reads requests in sequence, hands each to the routes as an Exchange, and
// writes its answer. Every resource that the peer controls is bounded: the head (64 KiB), the read
// buffer (64 KiB), the send buffer (producers check backlog()), and the time for an incomplete
// request.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "execd/http/exchange.h"
#include "runtime/base/acceptor.h"
#include "runtime/base/event_loop.h"
#include "runtime/base/unique_fd.h"
#include "runtime/http/parser.h"

namespace atl::execd {

using RequestHandler = std::function<void(const std::shared_ptr<Exchange>&)>;

class HttpServer;

class Connection : private http::Parser::BodySink {
 public:
  static constexpr size_t kMaxHead = 64 << 10;
  static constexpr int64_t kHeadTimeoutUs = 30'000'000;
  // Limit on the time without progress in a request body that a handler waits for.
  static constexpr int64_t kBodyTimeoutUs = 60'000'000;
  static constexpr int64_t kIdleTimeoutUs = 300'000'000;
  // Limit on the time until the peer of a byte pipe closes its side.
  static constexpr int64_t kDrainTimeoutUs = 5'000'000;

  Connection(HttpServer* server, UniqueFd socket);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();
  Status Start();

 private:
  friend class Exchange;
  friend class HttpServer;
  enum class State { kHead, kBody, kAnswer, kRaw, kDraining, kClosing };

  void OnEvents(uint32_t events);
  void OnReadable();
  void Process();
  bool ParseHead();
  bool ParseBody();
  // Parses body bytes. If they are malformed, answers the request and returns false.
  bool FeedBody(char* data, size_t size, size_t* used);
  void Dispatch();
  void OnBody(std::string_view piece) override;
  void EndExchange();
  void NextRequest();
  void BadRequest(const Error& error);

  void ScheduleFlush();
  void Flush();
  bool SendBuffer();
  void SendShortFile();
  void SendFilePart();
  void AfterFilePart(ssize_t n);
  void AfterFlush();
  void UpdateInterest();
  // Sets the deadline; 0 removes it.
  void SetDeadline(int64_t delay_us);
  void OnTimer();
  // Ends a byte pipe from this side, and reads until the peer closes. The peer may still be
  // sending: an immediate close would reset the connection, and the peer could lose bytes that were
  // sent before.
  void Drain();
  void Close();
  // Closes the connection and returns its socket open.
  UniqueFd TakeSocket();
  bool WantsInput() const;

  HttpServer& server_;
  UniqueFd socket_;
  EventLoop::Id watch_ = 0;
  EventLoop::Id timer_ = 0;
  int64_t timer_at_ = 0;     // when timer_ fires; may be earlier than deadline_at_
  int64_t deadline_at_ = 0;  // 0: none
  State state_ = State::kHead;
  std::optional<http::Parser> parser_;
  std::shared_ptr<Exchange> exchange_;
  std::string in_;
  std::string out_;
  size_t out_sent_ = 0;
  UniqueFd file_;
  uint64_t file_offset_ = 0, file_left_ = 0;
  uint64_t discarded_ = 0, body_size_ = 0;
  bool keep_alive_ = true;
  bool close_after_flush_ = false;
  bool flush_scheduled_ = false;
  bool was_full_ = false;
  bool processing_ = false;
  bool broken_ = false;
  bool half_closed_ = false;  // the peer of a byte pipe has ended its side
};

// Accepts and owns connections. Thread rule: the event loop's thread.
class HttpServer {
 public:
  // Limit on open connections. The daemon keeps a few connections to each sandbox; a burst opens
  // one for each request. At the limit the server stops accepting until a connection closes.
  static constexpr size_t kMaxConnections = 512;

  HttpServer(EventLoop* loop, RequestHandler handler);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  // Accepts connections. `accept_peer` sees each new socket and may refuse it (vsock: by the peer's
  // CID).
  Status Listen(UniqueFd listener, std::function<bool(int socket)> accept_peer = {});
  // Replaces Listen: receives connections through a connected socket, each with one byte.
  Status Receive(UniqueFd connections);

 private:
  friend class Connection;
  void Begin(UniqueFd socket);
  void SetOpen(bool open);
  void Remove(Connection* connection);
  // Schedules the return of free memory to the kernel after a large body.
  void TrimSoon();

  EventLoop& loop_;
  RequestHandler handler_;
  UniqueFd listener_;
  std::function<bool(int)> accept_peer_;
  std::unique_ptr<Acceptor> acceptor_;  // set by Listen
  EventLoop::Id watch_ = 0;             // set by Receive
  EventLoop::Id trim_ = 0;
  std::unordered_map<Connection*, std::unique_ptr<Connection>> connections_;
};

}  // namespace atl::execd
