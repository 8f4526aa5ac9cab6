#include "runtime/http/connection.h"

#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/http/ascii.h"
#include "runtime/http/exchange.h"
#include "runtime/http/serialize.h"

namespace atl::http {
namespace {

constexpr int64_t kSecond = 1'000'000;

constexpr size_t kHeadReadSize = 8 << 10;
constexpr size_t kBodyReadSize = 64 << 10;
constexpr size_t kIdleBufferSize = 16 << 10;
// If the unread rest of a request body is at most this long, it is read and dropped to keep the
// connection.
constexpr uint64_t kMaxDrain = 64 << 10;
// After the last response the socket is read until the client closes it: closing with unread input
// makes the kernel send a reset, which can overtake the response. Many clients read a refusal only
// when they have sent the whole body, so a body that still arrives is read to its end, within these
// bounds: silence, time in all, bytes.
constexpr int64_t kLingerSilence = 2 * kSecond;
constexpr int64_t kLingerTime = 60 * kSecond;
// While the server stops: time for the first request of a client that has just connected. The grace
// period of the stop is usually shorter.
constexpr int64_t kLastRequestTime = 5 * kSecond;
constexpr size_t kLingerBytes = 256 << 20;

}  // namespace

Connection::Connection(std::shared_ptr<ServerCore> core, std::shared_ptr<Stream> stream)
    : core_(std::move(core)),
      stream_(std::move(stream)),
      apart_{this},
      place_(apart_.begin()),
      read_size_(kHeadReadSize) {
  core_->connections.insert(this);
}

Connection::~Connection() {
  Close();
}

void Connection::Start(std::string peer, bool local) {
  peer_ = std::move(peer);
  if (!core_->tls) return NextRequest();
  state_ = State::kHandshake;
  Wait();
  SetDeadline(core_->config.handshake_timeout_seconds * kSecond);
  stream_->StartTls(core_->tls, local, [self = shared_from_this()](int error) {
    if (error == ENOPROTOOPT && !self->closed_) {
      return self->RespondToBadHead({400, "this port speaks TLS: use https://"});
    }
    if (error != 0) return self->Close();
    self->NextRequest();
  });
}

void Connection::Refuse() {
  state_ = State::kHandling;
  head_.keep_alive = false;
  Respond(ErrorResponse(503, "GENERAL::OVERLOADED", "too many connections; try again later"));
}

// ---- requests

void Connection::Wait() {
  core_->waiting.splice(core_->waiting.end(), waits_ ? core_->waiting : apart_, place_);
  waits_ = true;
}

void Connection::Work() {
  if (std::exchange(waits_, false)) apart_.splice(apart_.end(), core_->waiting, place_);
}

void Connection::NextRequest() {
  ReleasePiece();
  if (closed_) return;
  if (core_->stopping && asked_ && input_.empty()) return Close();
  scanner_.Reset();
  continue_pending_ = drop_after_response_ = slow_body_ = false;
  read_size_ = kHeadReadSize;
  if (!reading_) input_.Shrink(kIdleBufferSize);
  state_ = State::kIdle;
  Wait();
  SetDeadline(core_->config.keep_alive_seconds * kSecond);
  TryParseHead();
}

void Connection::TryParseHead() {
  const std::string_view bytes = input_.view();
  const auto found = scanner_.Scan(bytes);
  const size_t limit = core_->config.max_header_bytes;
  if (found == HeadScanner::State::kBad) {
    return RespondToBadHead({400, "this is not an HTTP/1.1 request"});
  }
  if (found == HeadScanner::State::kComplete && scanner_.size() <= limit) return Dispatch();
  if (found == HeadScanner::State::kComplete || bytes.size() >= limit) {
    return RespondToBadHead({431, "the request head is too large"});
  }
  if (state_ == State::kIdle && !bytes.empty()) {
    state_ = State::kReadingHead;
    Wait();
    SetDeadline(core_->config.header_timeout_seconds * kSecond);
  }
  ReadMore([self = shared_from_this()](int error) {
    if (error != 0) return self->Close();
    self->TryParseHead();
  });
}

void Connection::Dispatch() {
  auto parsed = ParseRequestHead(input_.view().substr(0, scanner_.size()));
  input_.Consume(scanner_.size());
  if (!parsed) return RespondToBadHead(parsed.error());
  head_ = std::move(*parsed);
  head_.request.peer = peer_;
  head_.request.tls = stream_->is_tls();
  is_head_ = head_.request.method == "HEAD";
  body_ = BodyDecoder(head_.body);
  continue_pending_ = head_.expect_continue;
  state_ = State::kHandling;
  Work();
  asked_ = true;
  authority_.clear();
  ClearDeadline();
  auto exchange = std::make_shared<ExchangeImpl>(shared_from_this(), std::move(head_.request));
  try {
    core_->handler(exchange);
  } catch (const std::exception& exception) {
    LogLine(LogLevel::kError, "request handler failed").Add("error", exception.what());
    exchange->Respond(ErrorResponse(500, "GENERAL::INTERNAL_ERROR", "internal error"));
  }
}

void Connection::RespondToBadHead(const HeadError& error) {
  // After a head that could not be parsed, the start of the next request is unknown.
  head_ = RequestHead();
  head_.keep_alive = false;
  is_head_ = false;
  body_ = BodyDecoder();
  state_ = State::kHandling;
  Work();
  std::string_view code = "GENERAL::BAD_REQUEST";
  if (error.status == 431) code = "GENERAL::HEADER_TOO_LARGE";
  if (error.status == 408) code = "GENERAL::REQUEST_TIMEOUT";
  Respond(ErrorResponse(error.status, code, error.message));
}

// ---- input

void Connection::ReadMore(OnRead on_read) {
  if (closed_) {
    return core_->loop.Post([on_read = std::move(on_read)] { on_read(ECANCELED); });
  }
  on_read_ = std::move(on_read);
  if (reading_) return;
  reading_ = true;
  if (eof_) {
    core_->loop.Post([self = shared_from_this()] {
      self->reading_ = false;
      const OnRead waiter = std::exchange(self->on_read_, nullptr);
      if (waiter) waiter(kEndOfStream);
    });
    return;
  }
  const Buffer::Space space = input_.Prepare(read_size_);
  stream_->Read(space.data, space.size, [self = shared_from_this()](int error, size_t n) {
    self->reading_ = false;
    self->input_.Commit(n);
    if (error != 0) self->eof_ = true;
    const OnRead waiter = std::exchange(self->on_read_, nullptr);
    if (waiter) waiter(error);
  });
}

void Connection::ReleasePiece() {
  input_.Consume(std::exchange(piece_consumed_, 0));
}

void Connection::WipePiece() {
  if (piece_consumed_ != 0) ::explicit_bzero(input_.data(), piece_consumed_);
}

Result<Connection::Piece> Connection::TakeBufferedPiece() {
  ReleasePiece();
  auto decoded = body_.Decode(input_.data(), input_.size());
  if (!decoded) {
    drop_after_response_ = true;
    return Fail(std::move(decoded).error());
  }
  piece_consumed_ = decoded->consumed;
  return Piece{{input_.data(), decoded->size}, body_.done()};
}

void Connection::NextPiece(OnPiece on_piece) {
  Result<Piece> piece = TakeBufferedPiece();
  if (!piece || piece->last || !piece->bytes.empty()) {
    ClearDeadline();
    return on_piece(std::move(piece));
  }
  ReleasePiece();
  SendContinue(
      [self = shared_from_this(), on_piece = std::move(on_piece)] { self->ReadPiece(on_piece); });
}

void Connection::ReadPiece(OnPiece on_piece) {
  read_size_ = kBodyReadSize;
  if (!slow_body_) SetDeadline(core_->config.header_timeout_seconds * kSecond);
  ReadMore([self = shared_from_this(), on_piece = std::move(on_piece)](int error) {
    if (error != 0) {
      return on_piece(
          Fail(Code::kUnavailable, "the client closed the connection within the request body"));
    }
    self->NextPiece(on_piece);
  });
}

void Connection::SendContinue(std::function<void()> then) {
  if (!std::exchange(continue_pending_, false) || closed_) return then();
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  stream_->Write({kContinue}, [self = shared_from_this(), then = std::move(then)](int, size_t) {
    then();  // the read will report the error
  });
}

// ---- responses

void Connection::Respond(Response response) {
  if (closed_ || state_ != State::kHandling) return;
  for (const Header& header : response.headers.list) {
    if (ValidField(header.name, header.value)) continue;
    LogLine(LogLevel::kError, "response field not sent").Add("name", header.name);
    response = ErrorResponse(500, "GENERAL::INTERNAL_ERROR", "internal error");
    break;
  }
  // Small answers always pass: the number of connections bounds them.
  constexpr size_t kSmall = 64 << 10;
  if (response.body.size() > kSmall &&
      core_->untaken + response.body.size() > core_->config.max_untaken_bytes) {
    response = ErrorResponse(503, "GENERAL::UNAVAILABLE",
                             "too many clients do not read their answers; try again later");
  }
  WriteResponse(std::move(response), PrepareKeepAlive());
}

bool Connection::PrepareKeepAlive() {
  ForgetRead();
  ReleasePiece();
  if (!head_.keep_alive || core_->stopping || drop_after_response_ || single_) return false;
  if (body_.done()) return true;
  // A client that was not told to continue may or may not send the body, so the start of the next
  // request is unknown.
  if (continue_pending_ || !TakeBufferedPiece()) return false;
  ReleasePiece();
  return body_.done() || (body_.remaining_length() > 0 && body_.remaining_length() <= kMaxDrain);
}

void Connection::WriteResponse(Response response, bool keep_alive) {
  output_.clear();
  AppendStatusLine(response.status, {}, &output_);
  output_.append(DateField());
  for (const Header& header : response.headers.list) {
    if (EqualNoCase(header.name, "content-length") || IsHopByHop({}, header.name)) continue;
    AppendField(header.name, header.value, &output_);
  }
  const bool bodiless = response.status < 200 || response.status == 204 || response.status == 304;
  if (!bodiless) AppendNumberField("Content-Length", response.body.size(), &output_);
  if (!keep_alive) AppendField("Connection", "close", &output_);
  if (keep_alive && head_.http_1_0) AppendField("Connection", "keep-alive", &output_);
  output_.append("\r\n");
  if (!bodiless && !is_head_) output_body_ = std::move(response.body);
  core_->untaken += output_body_.size();

  state_ = State::kWriting;
  ExpectProgress();
  stream_->Write(
      {output_, output_body_},
      [self = shared_from_this(), keep_alive](int error, size_t) {
        self->ForgetAnswer();
        if (error != 0) return self->Close();
        self->ResponseWritten(keep_alive);
      },
      // Progress extends the deadline of a slow reader.
      [this] { ExpectProgress(); });
}

void Connection::ForgetAnswer() {
  core_->untaken -= output_body_.size();
  output_body_ = {};
}

void Connection::ResponseWritten(bool keep_alive) {
  if (closed_) return;
  if (!keep_alive) return LingeringClose();
  if (body_.done()) return NextRequest();
  DrainBody();
}

void Connection::DrainBody() {
  state_ = State::kHandling;
  NextPiece([self = shared_from_this()](Result<Piece> piece) {
    if (!piece) return self->Close();
    if (piece->last) return self->NextRequest();
    self->DrainBody();
  });
}

void Connection::LingeringClose() {
  ReleasePiece();
  state_ = State::kLingering;
  Wait();
  stream_->ShutdownSend();
  linger_until_us_ = MonotonicMicros() + kLingerTime;
  Linger(kLingerBytes);
}

void Connection::Linger(size_t budget) {
  const size_t arrived = input_.size();
  input_.Consume(arrived);
  if (eof_ || arrived >= budget) return Close();
  SetDeadline(std::min(kLingerSilence, linger_until_us_ - MonotonicMicros()));
  ReadMore([self = shared_from_this(), left = budget - arrived](int error) {
    if (error != 0) return self->Close();
    self->Linger(left);
  });
}

// ---- the end

void Connection::FinishSoon() {
  const bool idle = state_ == State::kIdle || state_ == State::kHandshake;
  if (!idle || !input_.empty()) return;
  // If the socket were closed with an unread request, or before the first request arrives, the
  // kernel would reset it, and a client that did nothing wrong would see an error.
  if (asked_ && !HasUnread()) return Close();
  SetDeadline(kLastRequestTime);
}

bool Connection::HasUnread() const {
  int unread = 0;
  (void)ioctl(stream_->fd(), FIONREAD, &unread);
  return unread != 0;
}

void Connection::Revoke() {
  if (state_ != State::kHandling) return;
  if (on_revoke_) {
    const auto on_revoke = on_revoke_;
    return on_revoke();
  }
  // Proxied and streamed answers have set a callback for the end.
  if (on_abort_ || !body_.done()) return Abort(true);
  revoked_ = single_ = true;
}

void Connection::Abort(bool reset) {
  if (closed_) return;
  if (reset) {
    // A linger time of zero makes close(2) send a reset.
    const linger option{1, 0};
    (void)setsockopt(stream_->fd(), SOL_SOCKET, SO_LINGER, &option, sizeof option);
  }
  Close(!reset);
}

void Connection::SetOnAbort(std::function<void()> on_abort) {
  if (closed_ && on_abort) return core_->loop.Post(std::move(on_abort));
  on_abort_ = std::move(on_abort);
}

void Connection::Close(bool properly) {
  if (std::exchange(closed_, true)) return;
  Work();
  ClearDeadline();
  core_->loop.Cancel(timer_);
  stream_->Close(properly);
  // The pending read is ended here and not by its completion: its callback holds this connection,
  // and if the loop ends now, nothing else would break the cycle.
  if (on_read_) ReadMore(std::exchange(on_read_, nullptr));
  on_revoke_ = nullptr;
  if (auto on_abort = std::exchange(on_abort_, nullptr)) on_abort();
  core_->connections.erase(this);
  if (core_->connections.empty() && core_->on_idle) {
    std::exchange(core_->on_idle, nullptr)();
  }
}

// ---- the deadline
//
// Setting a deadline is one store. The timer is armed for the earliest deadline and looks at the
// current one when it fires. A busy connection touches the timer a few times a minute.

void Connection::SetDeadline(int64_t from_now_us) {
  deadline_us_ = MonotonicMicros() + from_now_us;
  if (deadline_us_ < armed_until_us_) ArmTimer();
}

void Connection::ExpectProgress() {
  SetDeadline(core_->config.answer_timeout_seconds * kSecond);
}

void Connection::ArmTimer() {
  core_->loop.Cancel(timer_);
  armed_until_us_ = deadline_us_;
  timer_ = core_->loop.After(deadline_us_ - MonotonicMicros(), [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self || self->closed_) return;
    self->armed_until_us_ = kNever;
    if (MonotonicMicros() >= self->deadline_us_) return self->OnDeadline();
    if (self->deadline_us_ != kNever) self->ArmTimer();
  });
}

void Connection::OnDeadline() {
  if (state_ == State::kReadingHead) {
    return RespondToBadHead({408, "the request head did not arrive in time"});
  }
  // A reset makes the kernel also drop the unread answer in its buffer, and an HTTP/1.0 client
  // could not tell an end from a cut.
  Abort(state_ == State::kWriting || on_abort_ != nullptr);
}

}  // namespace atl::http
