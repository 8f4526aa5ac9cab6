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

// Built with HTTP_TESTS_OVER_TLS, servers speak TLS and so do the peers that connect to them: every
// test of the server and the proxy is one of TLS as well.
#ifdef HTTP_TESTS_OVER_TLS
inline constexpr bool kOverTls = true;
#else
inline constexpr bool kOverTls = false;
#endif

// The other end of a socket: reads and writes block, a peer that stays silent for 10 s fails the
// test.
class Peer {
 public:
  explicit Peer(UniqueFd fd);
  static Peer ConnectTcp(uint16_t port, bool tls = kOverTls);

  void Send(std::string_view bytes);
  // Whether all could be sent.
  bool TrySend(std::string_view bytes);
  // Reads until `needle` has come; returns everything up to its end and keeps the rest.
  std::string ReadUntil(std::string_view needle);
  std::string ReadExactly(size_t n);
  // Reads to the end; `*reset` tells whether that was a reset, or the end of a TLS connection that
  // was not announced.
  std::string ReadToEnd(bool* reset = nullptr);
  // A head, and the body that its Content-Length announces.
  std::string ReadResponse();
  void ShutdownWrite();
  void Close() { fd_.reset(); }
  int fd() const { return fd_.get(); }
  ssl_st* ssl() const { return ssl_.get(); }  // null: none

 private:
  bool Fill();  // false at the end of the stream

  UniqueFd fd_;
  std::shared_ptr<ssl_st> ssl_;
  std::string pending_;
  bool reset_ = false;
};

// What comes behind a response's head.
std::string BodyOf(const std::string& response);

// A Unix socket that listens; the test plays the upstream by hand.
class UnixListener {
 public:
  UnixListener();
  ~UnixListener();
  const std::string& path() const { return path_; }
  Peer Accept();
  // Whether a connection is waiting now.
  bool HasWaiting() const;

 private:
  std::string directory_;
  std::string path_;
  UniqueFd fd_;
};

// A server with its loop in a thread of its own.
class RunningServer {
 public:
  explicit RunningServer(Handler handler, ServerConfig config = {});
  ~RunningServer();
  uint16_t port() const { return server_->port(); }
  Peer Connect() const { return Peer::ConnectTcp(port()); }
  // Runs on the loop, and waits for it.
  void OnLoop(const std::function<void()>& work);
  Server& server() { return *server_; }
  PooledLoop& loop() { return *loop_; }

 private:
  std::unique_ptr<PooledLoop> loop_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

// Of one TestCertificate, for 127.0.0.1 and localhost, and of those who believe it.
std::shared_ptr<const TlsContext> ServerTls();
std::shared_ptr<const TlsContext> ClientTrust();

// The value of a header in a raw head; all of them if it repeats.
std::vector<std::string> FieldsOf(const std::string& head, std::string_view name);

}  // namespace atl::http
