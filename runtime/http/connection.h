// One client connection of the server. Reads requests one after another, passes each to the handler
// as an Exchange, and writes the answer. Internal to this folder.
//
// At most one read and one write are in flight. The read is shared: whoever needs more input (the
// head parser, a body reader, the proxy that watches for a disconnect) asks for its completion. A
// read that is still pending when an exchange ends becomes the first read of the next request.
//
// Thread rule: the loop's thread. Lifetime: held by its own pending operations and by its Exchange.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
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

  // `local`: the peer is on this host, and may speak without TLS.
  void Start(std::string peer, bool local);
  // Answers 503 and closes, because the server has too many connections.
  void Refuse();
  // Closes now if idle, otherwise after the current request.
  void FinishSoon();
  // Returns false if a request has arrived that the loop has not read yet.
  bool AtRest() const { return state_ != State::kIdle || !HasUnread(); }
  // Closes the connection after its first answer.
  void CloseAfterAnswer() { single_ = true; }
  // See Server::EndExchanges.
  void Revoke();
  // See Exchange::SetAuthority.
  const std::string& authority() const { return authority_; }
  void SetAuthority(std::string authority) { authority_ = std::move(authority); }
  // True while the current answer is a stream, a forwarded answer or a tunnel.
  bool streams() const { return on_abort_ != nullptr; }
  // True if the current exchange may still be answered, but must not start anything that lasts.
  bool revoked() const { return revoked_; }
  // Closes at once; pending operations fail. With `reset` the peer sees an error instead of an end,
  // which is needed for a body that only the close would delimit.
  void Abort(bool reset);
  bool closed() const { return closed_; }

  // ---- for the Exchange
  // The head of the current request, without its `request`, which the Exchange has taken.
  const RequestHead& head() const { return head_; }
  // A piece of a request body, valid until the next call. Empty with `last` set at the end.
  struct Piece {
    std::string_view bytes;
    bool last = false;
  };
  using OnPiece = std::function<void(Result<Piece>)>;
  // Reads the next piece of the body. Sends "100 Continue" first if the client waits for it.
  // `on_piece` may be called before this returns.
  void NextPiece(OnPiece on_piece);
  // Returns the part of the body that has already arrived; an empty piece without `last` if there
  // is none.
  Result<Piece> TakeBufferedPiece();
  // Releases the piece that was delivered last.
  void ReleasePiece();
  // Overwrites the piece that was delivered last, which may hold secrets: this buffer is kept as
  // long as the connection.
  void WipePiece();
  const BodyDecoder& body() const { return body_; }
  // Closes the connection after the next response instead of reading the rest of the body.
  void DropAfterResponse() { drop_after_response_ = true; }
  void Respond(Response response);

  // ---- for the proxy
  // Most input that is read ahead of the current answer.
  static constexpr size_t kMaxReadAhead = 64 << 10;
  using OnRead = std::function<void(int error)>;  // see Stream::Done
  // Calls back when more input has arrived, or with an error, including the end of the stream. No
  // piece may be held.
  void ReadMore(OnRead on_read);
  // Drops the callback of the pending read. The read itself continues.
  void ForgetRead() { on_read_ = nullptr; }
  Buffer& input() { return input_; }
  Stream& stream() { return *stream_; }
  // Call when the proxy has written a complete response.
  void ResponseWritten(bool keep_alive);
  bool stopping() const { return core_->stopping; }
  ServerCore& core() { return *core_; }
  // Starts or extends the deadline by which the client must take some of its answer, or else be
  // disconnected. A stream calls it when a write begins and when it makes progress, and
  // ClearDeadline when it is done.
  void ExpectProgress();
  void ClearDeadline() { deadline_us_ = kNever; }
  // Lifts the deadline for the rest of this request's body.
  void AllowSlowBody() { slow_body_ = true; }
  // Sets the callback for when the connection is closed under the proxy. It is called once; if the
  // connection is already closed, soon and from the loop. nullptr cancels it unless it is already
  // posted.
  void SetOnAbort(std::function<void()> on_abort);
  // Sets what Revoke calls instead of aborting the connection. The callback ends the connection
  // soon.
  void SetOnRevoke(std::function<void()> on_revoke) { on_revoke_ = std::move(on_revoke); }
  bool is_head() const { return is_head_; }

 private:
  // Puts the connection behind all others that wait for their clients; ends that.
  void Wait();
  void Work();
  bool HasUnread() const;
  void NextRequest();
  void TryParseHead();
  void Dispatch();
  void RespondToBadHead(const HeadError& error);

  // Sends "100 Continue" if the client waits for it, then calls `then`.
  void SendContinue(std::function<void()> then);
  void ReadPiece(OnPiece on_piece);
  bool PrepareKeepAlive();
  void WriteResponse(Response response, bool keep_alive);
  // Frees the answer being written and subtracts it from ServerCore::untaken.
  void ForgetAnswer();
  void DrainBody();
  void LingeringClose();
  void Linger(size_t budget);
  // `properly`: the client can tell that this is an end and not a cut.
  void Close(bool properly = true);

  void SetDeadline(int64_t from_now_us);
  void ArmTimer();
  void OnDeadline();

  static constexpr int64_t kNever = INT64_MAX;
  enum class State { kHandshake, kIdle, kReadingHead, kHandling, kWriting, kLingering };

  std::shared_ptr<ServerCore> core_;
  const std::shared_ptr<Stream> stream_;
  EventLoop::Id timer_ = 0;
  int64_t deadline_us_ = kNever;  // CLOCK_MONOTONIC, like the next member
  int64_t armed_until_us_ = kNever;
  int64_t linger_until_us_ = 0;
  std::string peer_;
  // `place_` is the node of this connection. It is in ServerCore::waiting or in `apart_`, so moving
  // it allocates nothing.
  std::list<Connection*> apart_;
  std::list<Connection*>::iterator place_;
  bool waits_ = false;
  State state_ = State::kIdle;
  bool closed_ = false;
  bool asked_ = false;  // a request was read
  bool reading_ = false;
  bool eof_ = false;
  OnRead on_read_;
  std::function<void()> on_abort_;
  std::function<void()> on_revoke_;
  std::string authority_;

  Buffer input_;
  HeadScanner scanner_;
  RequestHead head_;
  BodyDecoder body_;
  size_t piece_consumed_ = 0;  // bytes of the input that the last piece has consumed
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
