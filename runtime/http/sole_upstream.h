// The one server behind one client's connection: a socket that was connected elsewhere, over which
// the client's requests go one after another. There is no retry and no second connection, so the
// client sees exactly what the server does.
//
// Thread rule: the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/event_loop.h"
#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/http/tls.h"

namespace atl::http {

class PooledLoop;
class Stream;

class SoleUpstream : public std::enable_shared_from_this<SoleUpstream> {
 public:
  // Takes ownership of `socket`, connected and nonblocking. `trust`: null for no encryption;
  // otherwise the server must prove to be `server`, and the handshake, which may take 10 s, begins
  // at once. Fails only if epoll's limit of watches is reached.
  static Result<std::shared_ptr<SoleUpstream>> Create(PooledLoop& loop, UniqueFd socket,
                                                      std::shared_ptr<const TlsContext> trust,
                                                      const std::string& server);
  SoleUpstream(const SoleUpstream&) = delete;
  SoleUpstream& operator=(const SoleUpstream&) = delete;
  ~SoleUpstream();

  using Taken = std::function<void(Result<std::shared_ptr<Stream>>)>;
  // Gives out the connection for one request, once the handshake is over. kUnavailable: there is no
  // connection; the message says why. Only one Take at a time.
  void Take(Taken done);
  // Drops the callback of Take.
  void Cancel() { waiting_ = nullptr; }
  // Returns the connection after a complete answer.
  void Put(std::shared_ptr<Stream> stream);
  // Sets the callback for when the server ends the idle connection.
  void OnEnd(std::function<void()> on_end) { on_end_ = std::move(on_end); }
  // True if the connection has carried a request and cannot carry another one.
  bool ended() const;
  // True if the current request is not the first one on the connection.
  bool reused() const { return uses_ > 1; }

 private:
  explicit SoleUpstream(PooledLoop& loop) : loop_(loop) {}
  void OnHandshake(const std::string& server, int error, const char* verify_error);

  PooledLoop& loop_;
  EventLoop::Id patience_ = 0;
  std::shared_ptr<Stream> stream_;  // null: in use or gone
  uint64_t uses_ = 0;
  bool shaking_hands_ = false;
  std::optional<Error> failed_;
  Taken waiting_;
  std::function<void()> on_end_;
  char unasked_ = 0;
};

}  // namespace atl::http
