// The one server behind one client's connection: a socket that somebody else has connected, over
// which the client's requests go one after another. There is no second try and no second
// connection: what the client sees is what the server does.
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
  // Takes over `socket`, connected and not blocking. `trust`: null, and nothing is encrypted; else
  // `server` has to prove that it is that, and the handshake, for which it has 10 s, begins at
  // once. An error: epoll's limit of watches.
  static Result<std::shared_ptr<SoleUpstream>> Create(PooledLoop& loop, UniqueFd socket,
                                                      std::shared_ptr<const TlsContext> trust,
                                                      const std::string& server);
  SoleUpstream(const SoleUpstream&) = delete;
  SoleUpstream& operator=(const SoleUpstream&) = delete;
  ~SoleUpstream();

  using Taken = std::function<void(Result<std::shared_ptr<Stream>>)>;
  // The connection for one request, once its handshake is over. kUnavailable: there is none, and
  // why. Never two at once.
  void Take(Taken done);
  // Whoever waits for it does so no more.
  void Cancel() { waiting_ = nullptr; }
  // Back, behind a whole answer.
  void Put(std::shared_ptr<Stream> stream);
  // Called when the server ends the connection while nobody has it.
  void OnEnd(std::function<void()> on_end) { on_end_ = std::move(on_end); }
  // It has carried a request and cannot carry another one.
  bool ended() const;
  // The request that it carries is not its first.
  bool reused() const { return uses_ > 1; }

 private:
  explicit SoleUpstream(PooledLoop& loop) : loop_(loop) {}
  void OnHandshake(const std::string& server, int error, const char* disbelief);

  PooledLoop& loop_;
  EventLoop::Id patience_ = 0;
  std::shared_ptr<Stream> stream_;  // null: taken, or gone
  uint64_t uses_ = 0;
  bool shaking_hands_ = false;
  std::optional<Error> failed_;
  Taken waiting_;
  std::function<void()> on_end_;
  char unasked_ = 0;
};

}  // namespace atl::http
