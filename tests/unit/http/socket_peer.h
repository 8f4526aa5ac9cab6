// Blocking sockets and a running server for the tests of runtime/http.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/unique_fd.h"
#include "runtime/http/pooled_loop.h"
#include "runtime/http/server.h"

struct ssl_st;

namespace atl::http {

// If HTTP_TESTS_OVER_TLS is defined, the servers and the peers that connect to them use TLS, so
// that every test of the server and of the proxy also runs over TLS.
#ifdef HTTP_TESTS_OVER_TLS
inline constexpr bool kOverTls = true;
#else
inline constexpr bool kOverTls = false;
#endif

// The test's end of a socket. Reads and writes block. A peer that stays silent for 10 s fails the
// test.
class Peer {
 public:
  explicit Peer(UniqueFd fd);
  static Peer ConnectTcp(uint16_t port, bool tls = kOverTls);

  void Send(std::string_view bytes);
  // Returns true if everything could be sent.
  bool TrySend(std::string_view bytes);
  // Reads until `needle` has arrived. Returns everything up to its end and keeps the rest.
  std::string ReadUntil(std::string_view needle);
  std::string ReadExactly(size_t n);
  // Reads to the end of the stream. Sets `*reset` if the end was a reset, or the end of a TLS
  // connection without a close_notify alert.
  std::string ReadToEnd(bool* reset = nullptr);
  // Reads a head and the body that its Content-Length announces.
  std::string ReadResponse();
  void ShutdownWrite();
  void Close() { fd_.reset(); }
  int fd() const { return fd_.get(); }
  ssl_st* ssl() const { return ssl_.get(); }  // null: no TLS

 private:
  bool Fill();  // false at the end of the stream

  UniqueFd fd_;
  std::shared_ptr<ssl_st> ssl_;
  std::string pending_;
  bool reset_ = false;
};

// Returns the part of a response after its head.
std::string BodyOf(const std::string& response);

// A listening Unix socket. The test plays the upstream.
class UnixListener {
 public:
  UnixListener();
  ~UnixListener();
  const std::string& path() const { return path_; }
  Peer Accept();
  // Returns true if a connection waits to be accepted.
  bool HasWaiting() const;

 private:
  std::string directory_;
  std::string path_;
  UniqueFd fd_;
};

// A server whose loop runs on a thread of its own.
class RunningServer {
 public:
  explicit RunningServer(Handler handler, ServerConfig config = {});
  ~RunningServer();
  uint16_t port() const { return server_->port(); }
  Peer Connect() const { return Peer::ConnectTcp(port()); }
  // Runs `work` on the loop and waits until it has finished.
  void OnLoop(const std::function<void()>& work);
  Server& server() { return *server_; }
  PooledLoop& loop() { return *loop_; }

 private:
  std::unique_ptr<PooledLoop> loop_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

// TLS contexts of a server with a TestCertificate for 127.0.0.1 and localhost, and of a client that
// trusts it.
std::shared_ptr<const TlsContext> ServerTls();
std::shared_ptr<const TlsContext> ClientTrust();

// Returns all values of a header in a raw head, in order.
std::vector<std::string> FieldsOf(const std::string& head, std::string_view name);

}  // namespace atl::http
