#include "runtime/http/forward.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "runtime/http/ascii.h"
#include "runtime/http/connection.h"
#include "runtime/http/serialize.h"
#include "runtime/http/sole_upstream.h"
#include "runtime/http/tunnel.h"

namespace atl::http {
namespace {

constexpr size_t kMaxResponseHead = 64 << 10;
// Fits a head with a body of 64 KiB in one read and one write: that is how execd sends a short
// file. Memory that no read fills is never touched, so it costs nothing.
constexpr size_t kReadSize = 72 << 10;
constexpr int64_t kStallCheckUs = 500'000;
// A client that has shut down its sending side may be gone: it is given up after half a minute.
constexpr int kHalfClosedChecks = 60;
constexpr std::string_view kChunkEnd = "\r\n";
constexpr std::string_view kBodyEnd = "0\r\n\r\n";
constexpr std::string_view kChunkAndBodyEnd = "\r\n0\r\n\r\n";

// One proxied exchange. Two pumps run side by side, for the request (client to upstream) and the
// response. Each has one buffer and one operation in flight, so that a slow side throttles the
// other. After the request has been sent, the client is still read from, only to notice its
// disconnect.
class Forwarding : public std::enable_shared_from_this<Forwarding> {
 public:
  Forwarding(std::shared_ptr<Connection> connection, Upstream upstream, bool replayable)
      : connection_(std::move(connection)),
        upstream_(std::move(upstream)),
        replayable_(replayable) {}

  void Start(const Request& request) {
    // The client has gone, so nothing is sent to the upstream.
    if (connection_->closed()) return;
    const RequestHead& head = connection_->head();
    // Closes like the server itself would between two requests, so that the client repeats the
    // request.
    if (upstream_.sole && upstream_.sole->ended()) return ClientGone();
    chunked_request_ = upstream_.body == nullptr && head.body.kind == Framing::Kind::kChunked;
    upgrade_ = head.upgrade && !upstream_.keeps_protocol;
    auto bytes = UpstreamRequestHead(request, upstream_, chunked_request_, upgrade_);
    if (!bytes) return Fail(std::move(bytes).error());
    request_head_ = std::move(*bytes);
    connection_->AllowSlowBody();
    connection_->SetOnAbort([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->End();
    });
    if (upstream_.sole) {
      // The server's TLS handshake may take a while, and meanwhile nobody reads from the client.
      WatchForStall();
      return upstream_.sole->Take(Connected());
    }
    if (auto pooled = connection_->core().upstreams.Take(upstream_.socket_path)) {
      pooled_ = true;
      socket_ = std::move(pooled);
      return SendHead();
    }
    Connect();
  }

 private:
  // ---- the request

  void Connect() {
    pooled_ = false;
    connection_->core().upstreams.Connect(upstream_.socket_path, Connected());
  }

  UpstreamPool::Connected Connected() {
    return [self = shared_from_this()](Result<std::shared_ptr<Stream>> stream) {
      if (self->ended_) return;
      if (!stream) return self->Fail(std::move(stream).error());
      self->socket_ = std::move(*stream);
      self->SendHead();
    };
  }

  // Sends the head together with the part of the body that has arrived.
  void SendHead() {
    if (upstream_.body) {
      first_piece_ = {*upstream_.body, true};
    } else if (!have_first_piece_) {
      Result<Connection::Piece> piece = connection_->TakeBufferedPiece();
      if (!piece) return FailBadBody();
      first_piece_ = *piece;
      have_first_piece_ = true;
      Show(first_piece_);
    }
    WriteRequest(request_head_, first_piece_);
  }

  void PumpRequest() {
    connection_->NextPiece([self = shared_from_this()](Result<Connection::Piece> piece) {
      if (self->ended_) return;
      if (piece) {
        self->Show(*piece);
        return self->WriteRequest({}, *piece);
      }
      if (piece.error().code() == Code::kInvalidArgument) return self->FailBadBody();
      self->ClientGone();
    });
  }

  void Show(const Connection::Piece& piece) {
    if (upstream_.on_request_body && !piece.bytes.empty()) upstream_.on_request_body(piece.bytes);
  }

  void WriteRequest(std::string_view head, const Connection::Piece& piece) {
    request_frame_.assign(head);
    std::string_view tail;
    if (chunked_request_) {
      if (!piece.bytes.empty()) AppendChunkSize(piece.bytes.size(), &request_frame_);
      tail = piece.bytes.empty() ? std::string_view() : kChunkEnd;
      if (piece.last) tail = piece.bytes.empty() ? kBodyEnd : kChunkAndBodyEnd;
    }
    socket_->Write({request_frame_, piece.bytes, tail},
                   [self = shared_from_this(), last = piece.last, is_head = !head.empty()](
                       int error, size_t n) {
                     if (!self->ended_) self->RequestWritten(error, n, last, is_head);
                   });
  }

  void RequestWritten(int error, size_t n, bool last, bool is_head) {
    // The upstream took nothing: it had closed the pooled connection.
    if (error != 0 && pooled_ && is_head && n == 0) return Connect();
    if (is_head) ReadHead();
    // An upstream that stops reading may have answered early, so its answer or end is read.
    if (error != 0) return;
    if (!last) {
      if (is_head) WatchForStall();
      return PumpRequest();
    }
    request_sent_ = true;
    upstream_.body = nullptr;
    connection_->core().loop.Cancel(stall_timer_);
    connection_->ReleasePiece();
    WatchClient();
  }

  // Returns true if a half-closed client is still served. With TLS an end is final, because later
  // bytes could come from anybody.
  bool HalfCloses() const {
    return connection_->core().config.answers_half_closed && !connection_->stream().is_tls();
  }

  // Reads ahead only to notice the client's end. Like most servers, it treats a half-closed client
  // as gone: clients that want the answer keep their side open. The exception is
  // answers_half_closed, for clients that believe to speak to another server, which may behave
  // differently.
  void WatchClient() {
    connection_->ReadMore([self = shared_from_this()](int error) {
      if (self->ended_) return;
      if (error == kEndOfStream && self->HalfCloses()) {
        self->patience_ = kHalfClosedChecks;
        return self->WatchForStall();
      }
      if (error != 0) return self->ClientGone();
      if (self->connection_->input().size() < Connection::kMaxReadAhead) return self->WatchClient();
      self->WatchForStall();
    });
  }

  // While the upstream does not take the body, or the read-ahead is full, nobody reads from the
  // client. This timer notices its end even then.
  void WatchForStall() {
    Loop& loop = connection_->core().loop;
    loop.Cancel(stall_timer_);
    stall_timer_ = loop.After(kStallCheckUs, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (!self || self->ended_) return;
      const short ends = self->HalfCloses() ? 0 : POLLRDHUP;  // POLLHUP is always reported
      pollfd client{self->connection_->stream().fd(), ends, 0};
      if (poll(&client, 1, 0) > 0 || --self->patience_ == 0) return self->ClientGone();
      self->WatchForStall();
    });
  }

  // ---- the response

  void ReadUpstream(void (Forwarding::*then)(int error)) {
    const Buffer::Space space = in_.Prepare(kReadSize);
    socket_->Read(space.data, space.size, [self = shared_from_this(), then](int error, size_t n) {
      if (self->ended_) return;
      self->in_.Commit(n);
      ((*self).*then)(error);
    });
  }

  void ReadHead() { ReadUpstream(&Forwarding::OnHeadRead); }

  void OnHeadRead(int error) {
    if (error != 0) {
      if (upstream_.sole && upstream_.sole->reused() && in_.empty()) return ClientGone();
      // A pooled connection that ends without a byte was probably closed by its peer before the
      // request arrived. But the peer may have acted on the request, so only safe requests are
      // repeated.
      if (pooled_ && in_.empty() && replayable_) return Connect();
      return Fail(UpstreamError(error == kEndOfStream ? "closed the connection without a response"
                                                      : std::strerror(error)));
    }
    ScanHead();
  }

  // Parses one head after another in a loop, because the upstream decides how many there are.
  void ScanHead() {
    for (;; ++interim_heads_) {
      if (interim_heads_ > kMaxInterimHeads) {
        return Fail(UpstreamError("sent too many interim responses"));
      }
      const auto found = scanner_.Scan(in_.view());
      if (found == HeadScanner::State::kMore && in_.size() < kMaxResponseHead) return ReadHead();
      if (found != HeadScanner::State::kComplete) {
        return Fail(UpstreamError(found == HeadScanner::State::kBad ? "sent no HTTP response"
                                                                    : "sent a head over 64 KiB"));
      }
      auto head = ParseResponseHead(in_.view().substr(0, scanner_.size()), connection_->is_head());
      if (!head) return Fail(UpstreamError(head.error().message()));
      in_.Consume(scanner_.size());
      scanner_.Reset();
      response_ = std::move(*head);
      if (response_.status == 101) return SwitchProtocols();
      if (response_.status >= 200) return StartResponse();
      // 100 concerned only the proxy; others (103 Early Hints) are for the client.
      if (response_.status != 100 && !connection_->head().http_1_0) return ForwardInterim();
    }
  }

  void ForwardInterim() {
    AppendResponseHead();
    out_.append("\r\n");
    connection_->stream().Write({out_}, [self = shared_from_this()](int error, size_t) {
      if (self->ended_) return;
      if (error != 0) return self->ClientGone();
      self->out_.clear();
      ++self->interim_heads_;
      self->ScanHead();
    });
  }

  void AppendResponseHead() {
    AppendStatusLine(response_.status, upstream_.drops_reason ? "" : response_.reason, &out_);
    Headers fields;
    for (const Header& header : response_.headers.list) {
      if (IsHopByHop(response_.headers, header.name)) continue;
      // RFC 9110 section 8.6: 1xx and 204 have no Content-Length. Some clients would wait for a
      // body.
      const bool no_length = response_.status < 200 || response_.status == 204;
      if (no_length && EqualNoCase(header.name, "content-length")) continue;
      fields.list.push_back(header);
    }
    if (upstream_.edit_response) upstream_.edit_response(response_.status, &fields);
    for (const Header& header : fields.list) AppendField(header.name, header.value, &out_);
  }

  void StartResponse() {
    response_body_ = BodyDecoder(response_.body);
    EditsBody() ? CollectBody() : SendResponse();
  }

  bool EditsBody() const {
    return upstream_.edit_body && response_.status == 200 && !connection_->is_head() &&
           response_.body.kind == Framing::Kind::kLength &&
           response_.body.length <= kMaxEditedBody && !response_.headers.Has("content-encoding");
  }

  void CollectBody() {
    auto decoded = response_body_.Decode(in_.data(), in_.size());
    if (!decoded) return Fail(UpstreamError("sent a malformed body"));
    whole_.append(in_.data(), decoded->size);
    in_.Consume(decoded->consumed);
    if (!response_body_.done()) return ReadUpstream(&Forwarding::OnCollected);
    const int status = response_.status;
    std::string edited = upstream_.edit_body(whole_, &response_.status, &response_.headers);
    if (edited != whole_) DropValidators();
    if (response_.status != status) response_.reason.clear();
    whole_ = std::move(edited);
    response_.headers.Set("Content-Length", std::to_string(whole_.size()));
    SendResponse();
  }

  // Drops fields about the upstream's bytes: with an ETag, a cache would treat the edited body, or
  // one edited for another client, as the same (RFC 9110 section 8.8.3).
  void DropValidators() {
    std::erase_if(response_.headers.list, [](const Header& field) {
      for (const char* name : {"ETag", "Last-Modified", "Accept-Ranges", "Content-MD5", "Digest",
                               "Content-Digest", "Repr-Digest"}) {
        if (EqualNoCase(field.name, name)) return true;
      }
      return false;
    });
  }

  void OnCollected(int error) {
    if (error == 0) return CollectBody();
    Fail(UpstreamError("cut off its answer"));
  }

  void SendResponse() {
    const RequestHead& request = connection_->head();
    // An answer that comes before the request's body has passed is the last: the rest of the body
    // is not worth carrying.
    keep_client_ = request.keep_alive && request_sent_ && !connection_->stopping() &&
                   (!upstream_.sole || response_.keep_alive);
    AppendResponseHead();
    const bool unknown_length = response_.body.kind == Framing::Kind::kChunked ||
                                response_.body.kind == Framing::Kind::kUntilClose;
    if (unknown_length) {
      chunked_response_ = !request.http_1_0;
      ends_with_close_ = request.http_1_0;
      if (chunked_response_) AppendField("Transfer-Encoding", "chunked", &out_);
      if (ends_with_close_) keep_client_ = false;
    }
    if (!keep_client_) AppendField("Connection", "close", &out_);
    if (keep_client_ && request.http_1_0) AppendField("Connection", "keep-alive", &out_);
    out_.append("\r\n");
    if (response_body_.done()) return WriteResponse(whole_, 0, true);
    PumpResponse();
  }

  // Writes what has been read, each read as one chunk, and then reads on.
  void PumpResponse() {
    auto decoded = response_body_.Decode(in_.data(), in_.size());
    if (!decoded) return response_started_ ? Break() : Fail(UpstreamError("sent a malformed body"));
    if (decoded->size == 0 && out_.empty() && !response_body_.done()) {
      in_.Consume(decoded->consumed);
      return ReadBody();
    }
    WriteResponse({in_.data(), decoded->size}, decoded->consumed, response_body_.done());
  }

  void WriteResponse(std::string_view bytes, size_t consumed, bool last) {
    response_started_ = true;
    std::string_view tail;
    if (chunked_response_) {
      if (!bytes.empty()) AppendChunkSize(bytes.size(), &out_);
      tail = bytes.empty() ? std::string_view() : kChunkEnd;
      if (last) tail = bytes.empty() ? kBodyEnd : kChunkAndBodyEnd;
    }
    connection_->stream().Write({out_, bytes, tail},
                                [self = shared_from_this(), consumed, last](int error, size_t) {
                                  if (self->ended_) return;
                                  if (error != 0) return self->ClientGone();
                                  self->out_.clear();
                                  self->in_.Consume(consumed);
                                  if (last) return self->Complete();
                                  self->ReadBody();
                                });
  }

  void ReadBody() { ReadUpstream(&Forwarding::OnBodyRead); }

  void OnBodyRead(int error) {
    if (error == 0) return PumpResponse();
    // Only a clean end may delimit a body. Any other end has cut it off.
    if (error != kEndOfStream || !response_body_.AcceptsClose()) return Break();
    WriteResponse({}, 0, true);
  }

  void Complete() {
    if (response_.keep_alive && request_sent_ && in_.empty() && response_body_.done()) {
      if (upstream_.sole) {
        upstream_.sole->Put(std::move(socket_));
      } else {
        connection_->core().upstreams.Put(upstream_.socket_path, std::move(socket_));
      }
    }
    End();
    connection_->ForgetRead();
    connection_->ResponseWritten(keep_client_);
  }

  void SwitchProtocols() {
    const std::string upgrade(response_.headers.Get("upgrade"));
    if (!upgrade_ || upgrade.empty()) {
      return Fail(UpstreamError("switched protocols without a request"));
    }
    AppendResponseHead();
    AppendField("Connection", "Upgrade", &out_);
    Headers protocol{{{"Upgrade", upgrade}}};
    if (upstream_.edit_response) upstream_.edit_response(response_.status, &protocol);
    AppendField("Upgrade", protocol.Get("upgrade"), &out_);
    out_.append("\r\n");
    const bool web_socket = EqualNoCase(protocol.Get("upgrade"), "websocket");
    connection_->stream().Write({out_}, [self = shared_from_this(), web_socket](int error, size_t) {
      if (self->ended_) return;
      if (error != 0) return self->ClientGone();
      std::shared_ptr<Stream> socket = std::move(self->socket_);
      self->End();
      StartTunnel(self->connection_, std::move(socket), std::move(self->in_), self->upstream_.held,
                  self->upstream_.tap, web_socket);
    });
  }

  // ---- ends

  Error UpstreamError(const std::string& what) const {
    return {Code::kUnavailable,
            (upstream_.sole ? "the server" : upstream_.socket_path) + " " + what};
  }

  // Ends an exchange whose upstream has failed before its response.
  void Fail(const Error& error) {
    End();
    const auto answer = [self = shared_from_this(), error] {
      const auto& on_error = self->upstream_.on_error;
      self->connection_->Respond(
          on_error ? on_error(error)
                   : ErrorResponse(502, "GENERAL::BAD_GATEWAY", "upstream failed"));
    };
    if (!upstream_.await_reason) return answer();
    std::exchange(upstream_.await_reason, nullptr)(error, answer);
  }

  void FailBadBody() {
    if (response_started_) return Break();
    End();
    connection_->DropAfterResponse();
    connection_->Respond(
        ErrorResponse(400, "GENERAL::BAD_REQUEST", "the chunked request body is malformed"));
  }

  // Ends a response that cannot be completed. The client must not take it for complete.
  void Break() {
    End();
    connection_->Abort(ends_with_close_);
  }

  void ClientGone() {
    End();
    connection_->Abort(false);
  }

  void End() {
    if (std::exchange(ended_, true)) return;
    if (socket_) socket_->Close();
    if (upstream_.sole) upstream_.sole->Cancel();
    connection_->core().loop.Cancel(stall_timer_);
    connection_->SetOnAbort(nullptr);
  }

  const std::shared_ptr<Connection> connection_;
  Upstream upstream_;
  const bool replayable_;  // a safe method without a body
  std::shared_ptr<Stream> socket_;
  bool pooled_ = false;
  bool ended_ = false;

  bool upgrade_ = false;
  bool chunked_request_ = false;
  bool request_sent_ = false;
  bool have_first_piece_ = false;
  Connection::Piece first_piece_;
  std::string request_head_;
  std::string request_frame_;
  Loop::Id stall_timer_ = 0;
  int patience_ = 0;  // remaining checks; 0: unlimited

  Buffer in_;
  HeadScanner scanner_;
  int interim_heads_ = 0;
  ResponseHead response_;
  BodyDecoder response_body_;
  std::string whole_;  // see Upstream::edit_body
  bool response_started_ = false;
  bool chunked_response_ = false;
  bool ends_with_close_ = false;  // the client's response ends with its connection
  bool keep_client_ = false;
  std::string out_;
};

}  // namespace

void StartForwarding(const std::shared_ptr<Connection>& connection, const Request& request,
                     Upstream upstream) {
  const std::string& method = request.method;
  const bool replayable = (method == "GET" || method == "HEAD" || method == "OPTIONS") &&
                          connection->head().body.kind == Framing::Kind::kNone;
  std::make_shared<Forwarding>(connection, std::move(upstream), replayable)->Start(request);
}

}  // namespace atl::http
