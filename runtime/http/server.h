// The daemon's HTTP/1.1 server, and the reverse proxy into sandboxes, on the event loop. Everything
// that a peer can make grow has a limit: header bytes, body bytes, idle time, connections.
//
// Thread rule: everything here is called and calls back on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/http/message.h"
#include "runtime/http/tls.h"

namespace atl::http {

class SoleUpstream;

inline constexpr size_t kMaxEditedBody = 64 << 10;

// Sees the bytes of a tunnel after a 101, in both directions, before they are passed on. Returns
// false to end the tunnel: they are not passed on, and the client of a WebSocket gets a close frame
// (1011).
class TunnelTap {
 public:
  virtual ~TunnelTap() = default;
  virtual bool FromClient(std::string_view bytes) = 0;
  virtual bool FromUpstream(std::string_view bytes) = 0;
};

// The destination of a proxied request, and the changes to it and its answer.
struct Upstream {
  // A Unix stream socket that speaks HTTP (execd's). Empty: `sole` is used.
  std::string socket_path;
  // Used instead of socket_path: the one server for all requests of this client's connection. When
  // the server closes its connection, the client's is closed too.
  std::shared_ptr<SoleUpstream> sole;
  std::string target;  // the request target to send, raw
  // Request headers to remove in addition to the hop-by-hop ones, ignoring case.
  std::vector<std::string> drop_headers;
  // Request headers to set; they replace existing ones.
  std::vector<Header> set_headers;
  // If set, sent instead of the request's body, which has been read. `set_headers` must have its
  // length. Released when it has been sent.
  std::shared_ptr<const std::string> body;
  // If set, the client's request for another protocol is removed, and the answer is HTTP.
  bool keeps_protocol = false;
  // If set, the upstream's reason phrase is replaced by the standard one.
  bool drops_reason = false;
  // If set, gets each piece of the request's body before it is sent, without its framing. The piece
  // is valid during the call.
  std::function<void(std::string_view piece)> on_request_body;
  // Changes the fields of the response, and of each interim one (1xx), before they are passed on.
  // The upstream's hop-by-hop fields are already removed, so it cannot remove what is set here.
  // Must not touch framing (Content-Length, Transfer-Encoding, Connection, Upgrade).
  std::function<void(int status, Headers*)> edit_response;
  // If set: the body of a 200 that has a length of at most kMaxEditedBody and is not encoded is
  // collected and replaced by the result. If the result differs, the ETag and other fields about
  // the upstream's bytes are removed. Other bodies pass unchanged. The function may change status
  // and fields of an answer whose body it changes.
  std::function<std::string(std::string body, int* status, Headers* fields)> edit_body;
  // Makes the answer if the upstream cannot be reached, or breaks off before its response head.
  std::function<Response(const Error&)> on_error;
  // If set: called before on_error, and calls `go_on` when done. A better reason for the error may
  // arrive meanwhile.
  std::function<void(const Error&, std::function<void()> go_on)> await_reason;
  std::shared_ptr<TunnelTap> tap;  // null: nobody looks
  // Held until everything is over: the answer, however long it streams, and the tunnel after a 101.
  std::shared_ptr<const void> held;
};

// The body of an answer that is written in pieces. If the last reference is dropped without Finish,
// the answer is cut off, and the client notices.
class ResponseStream {
 public:
  virtual ~ResponseStream() = default;
  // Sends bytes as soon as the client takes them; until then they are held here. Does nothing after
  // the client is gone.
  virtual void Write(std::string bytes) = 0;
  virtual void Finish() = 0;
  // Bytes that the client has not taken. A producer should wait while this is large.
  virtual size_t backlog() const = 0;
  virtual bool closed() const = 0;
  // `drained` is called each time the backlog has become empty. `closed` is called once if the
  // client goes away before Finish, or was gone before the stream began. Neither is called from
  // within this call. Both are destroyed at the end.
  virtual void OnEvents(std::function<void()> drained, std::function<void()> closed) = 0;
};

// One request and its answer. Call exactly one of Respond, Stream and Forward, at any later time. A
// handler that drops its last reference without an answer causes a 500. If the client has gone,
// calls do nothing.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const Request& request() const = 0;

  // Names what the request was authorised by, so that Server::EndExchanges can end the exchange
  // when the authority ends. Call at most once, before anything else.
  virtual void SetAuthority(std::string authority) { static_cast<void>(authority); }

  // Reads the whole body. kResourceExhausted: over `limit` bytes or, with ENOMEM, no room for it
  // now (body_budget.h); the connection closes after the response. `done` may be called at once.
  virtual void ReadBody(size_t limit, std::function<void(Result<std::string>)> done) = 0;
  // Streams the body into `fd` (borrowed until `done`), written on a pool thread. `done` gets its
  // size, perhaps before this returns.
  virtual void SaveBody(int fd, uint64_t limit, std::function<void(Result<uint64_t>)> done) = 0;

  virtual void Respond(Response response) = 0;

  // Sends the head. The body follows through the stream, chunked, without a time limit. The
  // request's body must have been read. Not for HEAD.
  virtual std::shared_ptr<ResponseStream> Stream(Response head) = 0;

  // Forwards the exchange to the upstream. Request and response bodies are streamed and flushed as
  // they arrive, chunked if they came chunked, without trailers. An Upgrade that the upstream
  // accepts with 101 becomes a byte tunnel. Raw target and query are kept. An idle stream has no
  // timeout.
  virtual void Forward(Upstream upstream) = 0;
};

using Handler = std::function<void(std::shared_ptr<Exchange>)>;

struct ServerConfig {
  std::string host = "127.0.0.1";  // a literal address
  uint16_t port = 8080;
  // A bound and listening stream socket, to be used instead of host and port; -1: none. For a
  // process that binds before it drops its privileges and before it has threads.
  int listen_fd = -1;
  size_t max_header_bytes = 64 << 10;
  // Beyond it, the connection that has waited longest for its client gives way to a new one. If all
  // have a request in work, the new one gets 503.
  size_t max_connections = 4096;
  int keep_alive_seconds = 75;
  int header_timeout_seconds = 30;  // time from the first byte of a request to the end of its head
  // A client that takes no byte of its answer for this long is disconnected, so that what the
  // answer holds (memory, files, processes) is freed. Forwarded answers are exempt: they hold only
  // a buffer, and a terminal may be paused for hours.
  int answer_timeout_seconds = 60;
  // Limit of the memory of all answers that clients have not taken yet. Above it, a request with a
  // large answer gets 503.
  size_t max_untaken_bytes = 256 << 20;
  // If set: connections use TLS. Connections from this host may do without, because their bytes do
  // not leave the host: health checks, and tools that know no name of the certificate.
  std::shared_ptr<const TlsContext> tls;
  int handshake_timeout_seconds = 10;  // counted from the connection on
  // If set, a half-closed client still gets a forwarded answer. Otherwise it counts as gone, which
  // is noticed earlier.
  bool answers_half_closed = false;
};

class PooledLoop;

class Server {
 public:
  // Binds and listens at once, so that "address in use" is an error here. Serves when the loop
  // runs.
  static Result<std::unique_ptr<Server>> Listen(PooledLoop& loop, const ServerConfig& config,
                                                Handler handler);
  virtual ~Server() = default;
  // The actual port, if the configured one is 0.
  virtual uint16_t port() const = 0;
  // Sets ServerConfig::tls for new connections; null: no TLS.
  virtual void SetTls(std::shared_ptr<const TlsContext> tls) = 0;
  // Ends the exchanges for whose authority `ended` returns true; it is empty for an exchange
  // without one. Streams, forwarded exchanges, tunnels and requests whose body is still arriving
  // are cut. A request in hand is answered but cannot start a stream, and its connection closes.
  // Idle connections stay.
  virtual void EndExchanges(const std::function<bool(const std::string& authority)>& ended) = 0;
  // Returns the number of answers that last: streams, forwarded answers and tunnels.
  virtual size_t open_streams() const = 0;
  // Stops accepting and closes idle connections. Exchanges in progress may finish within
  // `grace_ms`.
  virtual void Stop(int grace_ms, std::function<void()> done) = 0;
};

// Serves one connection that was accepted elsewhere, on the nonblocking `socket`. The address and
// the number of connections of `config` are ignored. `closed` is called once, from the loop, when
// it has ended. The returned function ends the connection at once if it is idle. Fails only if
// epoll's limit of watches is reached.
Result<std::function<void()>> ServeConnection(PooledLoop& loop, const ServerConfig& config,
                                              Handler handler, UniqueFd socket,
                                              std::function<void()> closed);

}  // namespace atl::http
