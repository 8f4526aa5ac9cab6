// One HTTP/1.1 connection: reads requests one after the other, hands each to the routes as an
// Exchange, and writes its answer. Everything that a peer can make grow is bounded: the head
// (64 KiB), what is read ahead (64 KiB), what waits to be sent (the producers watch backlog()), and
// the time that a half-sent request may take.
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
  // Without a byte of progress in a request's body that someone is waiting for.
  static constexpr int64_t kBodyTimeoutUs = 60'000'000;
  static constexpr int64_t kIdleTimeoutUs = 300'000'000;
  // For the peer of a byte pipe to close it, too.
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
  // False if the bytes are no body, which is then answered.
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
  // 0: no deadline.
  void SetDeadline(int64_t delay_us);
  void OnTimer();
  // Ends a byte pipe from our side. Its peer may be sending: a close would reset the pipe, and what
  // we have sent before might not be read.
  void Drain();
  void Close();
  // Closes everything else.
  UniqueFd TakeSocket();
  bool WantsInput() const;

  HttpServer& server_;
  UniqueFd socket_;
  EventLoop::Id watch_ = 0;
  EventLoop::Id timer_ = 0;
  int64_t timer_at_ = 0;     // when timer_ fires; it may be earlier than deadline_at_
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
  bool half_closed_ = false;  // nothing more comes of a byte pipe
};

// Accepts and owns connections. Thread rule: the loop's.
class HttpServer {
 public:
  // The daemon keeps a few connections a sandbox, a burst opens one a request. Above this nothing
  // is accepted until one closes.
  static constexpr size_t kMaxConnections = 512;

  HttpServer(EventLoop* loop, RequestHandler handler);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  // `accept_peer` sees each new socket and may refuse it (vsock: by the peer's CID).
  Status Listen(UniqueFd listener, std::function<bool(int socket)> accept_peer = {});
  // In place of it: a connected socket through which connections come, a byte with each.
  Status Receive(UniqueFd connections);

 private:
  friend class Connection;
  void Begin(UniqueFd socket);
  void SetOpen(bool open);
  void Remove(Connection* connection);
  // A large body was here.
  void TrimSoon();

  EventLoop& loop_;
  RequestHandler handler_;
  UniqueFd listener_;
  std::function<bool(int)> accept_peer_;
  std::unique_ptr<Acceptor> acceptor_;  // of Listen
  EventLoop::Id watch_ = 0;             // of Receive
  EventLoop::Id trim_ = 0;
  std::unordered_map<Connection*, std::unique_ptr<Connection>> connections_;
};

}  // namespace atl::execd
