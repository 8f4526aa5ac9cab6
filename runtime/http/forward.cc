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
// A head with 64 KiB behind it comes in one read, and leaves in one write: execd sends a short file
// so. What no read fills is never touched, and costs no memory.
constexpr size_t kReadSize = 72 << 10;
constexpr int64_t kStallCheckUs = 500'000;
// Who has said that he will not send more may be gone: half a minute.
constexpr int kHalfClosedChecks = 60;
constexpr std::string_view kChunkEnd = "\r\n";
constexpr std::string_view kBodyEnd = "0\r\n\r\n";
constexpr std::string_view kChunkAndBodyEnd = "\r\n0\r\n\r\n";

// One proxied exchange. Two pumps run side by side, each with one buffer and one operation under
// way, so that a slow side holds back the other: the request's (client to upstream) and the
// response's. When the request is through, the client is still read from, only to notice that it
// goes away.
class Forwarding : public std::enable_shared_from_this<Forwarding> {
 public:
  Forwarding(std::shared_ptr<Connection> connection, Upstream upstream, bool replayable)
      : connection_(std::move(connection)),
        upstream_(std::move(upstream)),
        replayable_(replayable) {}

  void Start(const Request& request) {
    // Nothing is asked of the upstream for a client that has gone.
    if (connection_->closed()) return;
    const RequestHead& head = connection_->head();
    // As from the server itself, which closes between two requests: the client asks again.
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
      // Its handshake may take a while, in which nobody reads from the client.
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

  // The head goes out together with what has arrived of the body.
  void SendHead() {
    if (upstream_.body) {
      first_piece_ = {*upstream_.body, true};
    } else if (!have_first_piece_) {
      Result<Connection::Piece> piece = connection_->TakeBufferedPiece();
      if (!piece) return FailBadBody();
      first_piece_ = *piece;
      have_first_piece_ = true;
    }
    WriteRequest(request_head_, first_piece_);
  }

  void PumpRequest() {
    connection_->NextPiece([self = shared_from_this()](Result<Connection::Piece> piece) {
      if (self->ended_) return;
      if (piece) return self->WriteRequest({}, *piece);
      if (piece.error().code() == Code::kInvalidArgument) return self->FailBadBody();
      self->ClientGone();
    });
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
    // Nothing of it was taken: the pooled connection had been given up by its peer.
    if (error != 0 && pooled_ && is_head && n == 0) return Connect();
    if (is_head) ReadHead();
    // An upstream that stops reading may have answered early; its answer, or its end, is read.
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

  // Of TLS an end is one: what follows could not be told from what somebody else has sent.
  bool HalfCloses() const {
    return connection_->core().config.answers_half_closed && !connection_->stream().is_tls();
  }

  // Reads ahead only to learn of the client's end. A half-close counts as gone, as it does for most
  // servers: whoever still wants the answer keeps its side open. Unless clients believe that they
  // speak to somebody else, who may be of another opinion.
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
  // client: its end would go unnoticed for as long as the upstream is stuck.
  void WatchForStall() {
    Loop& loop = connection_->core().loop;
    loop.Cancel(stall_timer_);
    stall_timer_ = loop.After(kStallCheckUs, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (!self || self->ended_) return;
      const short ends = self->HalfCloses() ? 0 : POLLRDHUP;  // POLLHUP is told unasked
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
      // A pooled connection that ends without a byte was probably given up by its peer before the
      // request came, but the peer may have acted on it first: only what may be done twice is.
      if (pooled_ && in_.empty() && replayable_) return Connect();
      return Fail(UpstreamError(error == kEndOfStream ? "closed the connection without a response"
                                                      : std::strerror(error)));
    }
    ScanHead();
  }

  // Takes one head after the other, in a loop: the upstream decides how many there are.
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
      // 100 was between the upstream and us; others (103 Early Hints) are for the client.
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
      // RFC 9110 section 8.6: none in 1xx and 204, where some clients would wait for a body.
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
    std::string edited = upstream_.edit_body(whole_);
    if (edited != whole_) DropValidators();
    whole_ = std::move(edited);
    response_.headers.Set("Content-Length", std::to_string(whole_.size()));
    SendResponse();
  }

  // What the upstream says of its bytes: an ETag would have a cache call the edited ones, or those
  // that were edited for another client, the same (RFC 9110 section 8.8.3).
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
    Fail(UpstreamError("cut its answer off"));
  }

  void SendResponse() {
    const RequestHead& request = connection_->head();
    keep_client_ =
        request.keep_alive && !connection_->stopping() && (!upstream_.sole || response_.keep_alive);
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
    // Only a clean end may delimit a body; anything else has cut it off.
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
    connection_->ResponseWritten(keep_client_ && request_sent_);
  }

  void SwitchProtocols() {
    const std::string upgrade(response_.headers.Get("upgrade"));
    if (!upgrade_ || upgrade.empty()) {
      return Fail(UpstreamError("switched protocols without being asked to"));
    }
    AppendResponseHead();
    AppendField("Connection", "Upgrade", &out_);
    Headers protocol{{{"Upgrade", upgrade}}};
    if (upstream_.edit_response) upstream_.edit_response(response_.status, &protocol);
    AppendField("Upgrade", protocol.Get("upgrade"), &out_);
    out_.append("\r\n");
    connection_->stream().Write({out_}, [self = shared_from_this()](int error, size_t) {
      if (self->ended_) return;
      if (error != 0) return self->ClientGone();
      std::shared_ptr<Stream> socket = std::move(self->socket_);
      self->End();
      StartTunnel(self->connection_, std::move(socket), std::move(self->in_), self->upstream_.held);
    });
  }

  // ---- ends

  Error UpstreamError(const std::string& what) const {
    return {Code::kUnavailable,
            (upstream_.sole ? "the server" : upstream_.socket_path) + " " + what};
  }

  // The upstream has failed before its response.
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

  // The response cannot be completed: the client must not take what it has for the whole.
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
  int patience_ = 0;  // checks that are left; 0: any number

  Buffer in_;
  HeadScanner scanner_;
  int interim_heads_ = 0;
  ResponseHead response_;
  BodyDecoder response_body_;
  std::string whole_;  // see Upstream::edit_body
  bool response_started_ = false;
  bool chunked_response_ = false;
  bool ends_with_close_ = false;  // towards the client
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
