// The daemon's HTTP/1.1 server, and the reverse proxy into sandboxes, on the event loop.
//
// Limits on everything that a peer can make grow: header bytes, body bytes, idle time, connections.
// Thread rule: everything here is called and calls back on the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/unique_fd.h"
#include "runtime/http/message.h"
#include "runtime/http/tls.h"

namespace atl::http {

class SoleUpstream;

inline constexpr size_t kMaxEditedBody = 64 << 10;

// Where a proxied request goes, and what to change.
struct Upstream {
  // A Unix stream socket that speaks HTTP (execd's). Empty: see `sole`.
  std::string socket_path;
  // In place of it: the one server that all requests of this client's connection go to. Where it is
  // closed, the client's connection is too.
  std::shared_ptr<SoleUpstream> sole;
  std::string target;  // the request target to send, raw
  // Request headers that must not pass, beside the hop-by-hop ones; compared without case.
  std::vector<std::string> drop_headers;
  // Set on the request (replacing).
  std::vector<Header> set_headers;
  // Sent in place of the request's, which has been read; `set_headers` says its length. Let go when
  // it has been sent.
  std::shared_ptr<const std::string> body;
  // A change of the protocol that the client asks for is left out; the answer is then in HTTP.
  bool keeps_protocol = false;
  // What the upstream says beside its status is left out, for what is usual there.
  bool drops_reason = false;
  // Changes the fields of the response, and of each interim one (1xx), before they pass on. Those
  // that the upstream calls hop-by-hop are gone by then: it cannot take away what is set here.
  // Framing (Content-Length, Transfer-Encoding, Connection, Upgrade) is not for it.
  std::function<void(int status, Headers*)> edit_response;
  // If set: the body of a 200 that says its length, at most kMaxEditedBody, and is not encoded is
  // held until it is whole and passes on as this makes it, if that is another one without the
  // ETag and whatever else is said of the upstream's bytes. Others pass as they come.
  std::function<std::string(std::string body)> edit_body;
  // Sent if the upstream cannot be reached or breaks before its response head.
  std::function<Response(const Error&)> on_error;
  // If set: called before on_error, and calls what goes on; a better reason may be under way.
  std::function<void(const Error&, std::function<void()> go_on)> await_reason;
  // Held until all of it is over: the answer, however long it streams, and the tunnel behind a 101.
  std::shared_ptr<const void> held;
};

// The body of an answer that is written bit by bit. Dropping the last reference without Finish cuts
// the answer off, and the client notices.
class ResponseStream {
 public:
  virtual ~ResponseStream() = default;
  // Sent as soon as the client takes it; until then it is held here. Nothing happens once the
  // client is gone.
  virtual void Write(std::string bytes) = 0;
  virtual void Finish() = 0;
  // Bytes that the client has not taken: a producer waits while this is large.
  virtual size_t backlog() const = 0;
  virtual bool closed() const = 0;
  // `drained` is called each time the backlog has become empty, `closed` once if the client goes
  // away before Finish, or had gone before the stream began. Neither is called from within this
  // call. Whatever they hold is released at the end.
  virtual void OnEvents(std::function<void()> drained, std::function<void()> closed) = 0;
};

// One request and its answer. Exactly one of Respond, Stream and Forward is called, at any later
// time; a handler that drops its last reference without any of them gives a 500. If the client has
// gone, calls are no-ops.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const Request& request() const = 0;

  // The whole body; over `limit` bytes it is kResourceExhausted (and the connection closes after
  // the response). `done` may be called before this returns, if the body is there already.
  virtual void ReadBody(size_t limit, std::function<void(Result<std::string>)> done) = 0;
  // Streams the body into `fd` (borrowed until `done`), written on a pool thread; calls back with
  // its size. `done` may be called before this returns.
  virtual void SaveBody(int fd, uint64_t limit, std::function<void(Result<uint64_t>)> done) = 0;

  virtual void Respond(Response response) = 0;

  // Sends the head; the body follows through the stream, chunked, for as long as it likes. The
  // request's body must have been read. Not for HEAD.
  virtual std::shared_ptr<ResponseStream> Stream(Response head) = 0;

  // Hands the exchange to the upstream: request body and response body are streamed, chunked both
  // ways where they came so, trailers dropped, flushed as they arrive; an Upgrade that the upstream
  // accepts with 101 becomes a byte tunnel. Raw target and query are kept. No timeout on an
  // idle stream.
  virtual void Forward(Upstream upstream) = 0;
};

using Handler = std::function<void(std::shared_ptr<Exchange>)>;

struct ServerConfig {
  std::string host = "127.0.0.1";  // a literal address
  uint16_t port = 8080;
  // A stream socket that is bound and listening already, to be taken over in place of host and
  // port; -1: none. For a process that binds before it gives up its privileges, and before it has
  // threads.
  int listen_fd = -1;
  size_t max_header_bytes = 64 << 10;
  size_t max_connections = 4096;
  int keep_alive_seconds = 75;
  int header_timeout_seconds = 30;  // from the first byte of a request to the end of its head
  // A client that takes no byte of its answer for this long is disconnected, so that what the
  // answer holds (memory, files, processes) is free again. Forwarded answers may wait: those hold
  // nothing but a buffer, and a terminal may be stopped for hours.
  int answer_timeout_seconds = 60;
  // Answers that clients have not taken yet may hold this much memory together; while they do, a
  // request whose answer is large is answered 503.
  size_t max_untaken_bytes = 256 << 20;
  // If set: every connection is TLS, but one from this host may do without, because what it says
  // leaves no wire: health checks, and tools that know no name that the certificate is for.
  std::shared_ptr<const TlsContext> tls;
  int handshake_timeout_seconds = 10;  // from the connection on
  // A client that only will not send more still gets what it has asked for by forwarding. Else it
  // counts as gone, which is noticed earlier.
  bool answers_half_closed = false;
};

class PooledLoop;

class Server {
 public:
  // Binds and listens at once (so that "address in use" is an error here); serves when the loop
  // runs.
  static Result<std::unique_ptr<Server>> Listen(PooledLoop& loop, const ServerConfig& config,
                                                Handler handler);
  virtual ~Server() = default;
  // The port that it listens on (useful when the configured one is 0).
  virtual uint16_t port() const = 0;
  // As ServerConfig::tls, for connections from now on; null: none of them is TLS.
  virtual void SetTls(std::shared_ptr<const TlsContext> tls) = 0;
  // Ends what clients were let in to before this: streams, forwarded exchanges, tunnels and
  // requests whose body is still coming are cut. A request in hand is answered, cannot begin a
  // stream any more, and its connection closes. Connections between two requests stay.
  virtual void EndExchanges() = 0;
  // Stops accepting and closes idle connections; exchanges in progress may finish until `grace_ms`.
  virtual void Stop(int grace_ms, std::function<void()> done) = 0;
};

// Serves one connection that somebody else has accepted, on `socket`, which does not block. Of
// `config` neither address nor number of connections have a meaning. `closed` is called once, from
// the loop, when it has ended. What is returned ends it at once if it is between two requests. An
// error: epoll's limit of watches.
Result<std::function<void()>> ServeConnection(PooledLoop& loop, const ServerConfig& config,
                                              Handler handler, UniqueFd socket,
                                              std::function<void()> closed);

}  // namespace atl::http
