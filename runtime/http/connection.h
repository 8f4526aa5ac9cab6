// One client connection of the server: reads requests one after another, hands each to the handler
// as an Exchange, writes its answer. Internal to this folder.
//
// At most one read and one write are under way. The read is shared: whoever needs more input
// (the head parser, a body reader, the proxy that watches for a disconnect) asks for the next
// completion, and one that is still pending when an exchange ends simply becomes the first read of
// the next request.
//
// Thread rule: the loop's thread. Lifetime: held by its own pending operations and by its Exchange.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/http/body.h"
#include "runtime/http/buffer.h"
#include "runtime/http/head.h"
#include "runtime/http/server_core.h"
#include "runtime/http/stream.h"

namespace atl::http {

class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(std::shared_ptr<ServerCore> core, std::shared_ptr<Stream> stream);
  ~Connection();

  // `local`: the peer is on this host, and may do without TLS.
  void Start(std::string peer, bool local);
  // Answers 503 and closes: the server is full.
  void Refuse();
  // Closes now if it is between requests, after the present one otherwise.
  void FinishSoon();
  // The first answer is the last.
  void CloseAfterAnswer() { single_ = true; }
  // See Server::EndExchanges.
  void Revoke();
  // The present exchange may be answered, and begin nothing that lasts.
  bool revoked() const { return revoked_; }
  // Closes at once; whatever waits is told so. With `reset` the peer sees an error rather than an
  // end: for a body that only the close would delimit.
  void Abort(bool reset);
  bool closed() const { return closed_; }

  // ---- for the Exchange
  // Of the present request; the Exchange has taken its `request`.
  const RequestHead& head() const { return head_; }
  // Stays valid until the next call; empty with `last` set at the end of the body.
  struct Piece {
    std::string_view bytes;
    bool last = false;
  };
  using OnPiece = std::function<void(Result<Piece>)>;
  // The next part of the request body, asking the client to continue if it waits for that.
  // `on_piece` may be called before this returns.
  void NextPiece(OnPiece on_piece);
  // The same for what has arrived already; nothing (and not last) if that is nothing.
  Result<Piece> TakeBufferedPiece();
  // Ends the life of the piece delivered last.
  void ReleasePiece();
  // Overwrites the piece delivered last: its bytes may hold secrets, and this buffer is kept for as
  // long as the connection.
  void WipePiece();
  const BodyDecoder& body() const { return body_; }
  // The next response ends the connection: the rest of the body is not worth reading.
  void DropAfterResponse() { drop_after_response_ = true; }
  void Respond(Response response);

  // ---- for the proxy
  // What a client may send ahead of the present answer before we stop reading from it.
  static constexpr size_t kMaxReadAhead = 64 << 10;
  using OnRead = std::function<void(int error)>;  // as Stream's
  // Calls back when more input has arrived, or with the error (the end included). No piece may be
  // alive.
  void ReadMore(OnRead on_read);
  // Ends interest in the read that is under way; the read itself goes on.
  void ForgetRead() { on_read_ = nullptr; }
  Buffer& input() { return input_; }
  Stream& stream() { return *stream_; }
  // The proxy has written a complete response.
  void ResponseWritten(bool keep_alive);
  bool stopping() const { return core_->stopping; }
  ServerCore& core() { return *core_; }
  // The client is disconnected unless it takes something of its answer in time. For a stream: when
  // a write begins, and with its progress; ClearDeadline when it is done.
  void ExpectProgress();
  void ClearDeadline() { deadline_us_ = kNever; }
  // From now on the body of this request may come as slowly as it likes.
  void AllowSlowBody() { slow_body_ = true; }
  // Called once when the connection is closed under the proxy, or from the loop soon if it is
  // closed already; nullptr takes it back, unless it is on its way.
  void SetOnAbort(std::function<void()> on_abort);
  bool is_head() const { return is_head_; }

 private:
  void NextRequest();
  void TryParseHead();
  void Dispatch();
  void RespondToBadHead(const HeadError& error);

  // Sends "100 Continue" if the client waits for it, then calls `then`.
  void SendContinue(std::function<void()> then);
  void ReadPiece(OnPiece on_piece);
  bool PrepareKeepAlive();
  void WriteResponse(Response response, bool keep_alive);
  // Frees the answer that is being written, and takes it out of ServerCore::untaken.
  void ForgetAnswer();
  void DrainBody();
  void LingeringClose();
  void Linger(size_t budget);
  // `properly`: as an end that the client can tell from a cut.
  void Close(bool properly = true);

  void SetDeadline(int64_t from_now_us);
  void ArmTimer();
  void OnDeadline();

  static constexpr int64_t kNever = INT64_MAX;
  enum class State { kHandshake, kIdle, kReadingHead, kHandling, kWriting, kLingering };

  std::shared_ptr<ServerCore> core_;
  const std::shared_ptr<Stream> stream_;
  EventLoop::Id timer_ = 0;
  int64_t deadline_us_ = kNever;  // of CLOCK_MONOTONIC, as the next
  int64_t armed_until_us_ = kNever;
  std::string peer_;
  State state_ = State::kIdle;
  bool closed_ = false;
  bool asked_ = false;  // a request of it was read
  bool reading_ = false;
  bool eof_ = false;
  OnRead on_read_;
  std::function<void()> on_abort_;

  Buffer input_;
  HeadScanner scanner_;
  RequestHead head_;
  BodyDecoder body_;
  size_t piece_consumed_ = 0;  // of the input, by the piece that was delivered last
  bool continue_pending_ = false;
  bool drop_after_response_ = false;
  bool single_ = false;
  bool revoked_ = false;
  bool slow_body_ = false;
  bool is_head_ = false;
  size_t read_size_ = 0;

  std::string output_;
  std::string output_body_;
};

}  // namespace atl::http
