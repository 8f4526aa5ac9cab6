#include "execd/http/connection.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "runtime/base/sys.h"
#include "runtime/http/ascii.h"
#include "runtime/http/serialize.h"

namespace atl::execd {
namespace {

constexpr size_t kRequestRead = 64 << 10;
constexpr size_t kFilePart = 512 << 10;
// A file up to this size is sent together with the head of its answer. Otherwise a reader on this
// CPU would wake for the head, preempt the rest, and wait again.
constexpr size_t kFileWithHead = 64 << 10;
// Limit on the discarded part of an unwanted body. It is read so that the peer gets its answer:
// closing with unread bytes would reset the connection and might destroy the answer in transit.
constexpr uint64_t kMaxDiscard = 1 << 30;
constexpr size_t kKeepCapacity = 16 << 10;
constexpr uint64_t kTrimAbove = 256 << 10;
constexpr int kAcceptAtOnce = 16;

// Shared buffer for requests and files; holds nothing between uses. Only touched pages cost memory.
char g_buffer[kRequestRead];
static_assert(kFileWithHead <= sizeof g_buffer);

}  // namespace

Connection::Connection(HttpServer* server, UniqueFd socket)
    : server_(*server), socket_(std::move(socket)) {}

Connection::~Connection() = default;

Status Connection::Start() {
  ATOLL_ASSIGN(watch_, server_.loop_.Watch(socket_.get(), EPOLLIN,
                                           [this](uint32_t events) { OnEvents(events); }));
  SetDeadline(kIdleTimeoutUs);
  return {};
}

void Connection::SetDeadline(int64_t delay_us) {
  deadline_at_ = delay_us == 0 ? 0 : server_.loop_.now_us() + delay_us;
  if (deadline_at_ == 0 || (timer_ != 0 && timer_at_ <= deadline_at_)) return;
  server_.loop_.Cancel(timer_);
  timer_at_ = deadline_at_;
  timer_ = server_.loop_.After(delay_us, [this] { OnTimer(); });
}

void Connection::OnTimer() {
  timer_ = 0;
  if (deadline_at_ == 0 || state_ == State::kClosing) return;
  const int64_t left = deadline_at_ - server_.loop_.now_us();
  if (left > 0) {
    SetDeadline(left);
    return;
  }
  if (state_ == State::kDraining || (state_ == State::kHead && in_.empty())) {
    Close();
    return;
  }
  // The request is incomplete; answers if nothing has been answered yet.
  keep_alive_ = false;
  close_after_flush_ = true;
  if (exchange_ && !exchange_->started()) {
    exchange_->RespondText(408, "request body: timed out");
  } else if (!exchange_) {
    out_.append("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    ScheduleFlush();
  } else {
    Close();
  }
}

bool Connection::WantsInput() const {
  switch (state_) {
    case State::kHead:
    case State::kDraining:
      return true;
    case State::kBody:
      return !exchange_->body_paused_;
    case State::kRaw:
      return !exchange_->body_paused_ && !half_closed_;
    case State::kAnswer:
      // Reads only to notice that the peer has closed. What it sends ahead is kept.
      return in_.size() < kRequestRead;
    case State::kClosing:
      break;
  }
  return false;
}

void Connection::UpdateInterest() {
  if (state_ == State::kClosing) return;
  uint32_t wanted = WantsInput() ? static_cast<uint32_t>(EPOLLIN) : 0;
  if (state_ == State::kAnswer && wanted == 0) wanted = EPOLLRDHUP;
  // A send that has not been attempted needs no watch.
  if (!flush_scheduled_ && (out_.size() > out_sent_ || file_left_ > 0)) wanted |= EPOLLOUT;
  server_.loop_.Modify(watch_, wanted);
}

void Connection::OnEvents(uint32_t events) {
  if (events & EPOLLOUT) Flush();
  if (state_ == State::kClosing) return;
  if (events & EPOLLIN) {
    OnReadable();
  } else if (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) {
    Close();
  }
}

void Connection::OnReadable() {
  const ssize_t n = ::recv(socket_.get(), g_buffer, kRequestRead, MSG_DONTWAIT);
  if (n < 0) {
    if (errno != EAGAIN && errno != EINTR) Close();
    return;
  }
  if (n == 0) {
    if (state_ == State::kRaw && exchange_->on_body_end_) {
      // The other direction may continue. The owner of the pipe decides.
      half_closed_ = true;
      const auto hold = exchange_;
      auto end = std::move(exchange_->on_body_end_);
      exchange_->on_body_end_ = nullptr;
      UpdateInterest();
      end();
      return;
    }
    Close();
    return;
  }
  if (state_ == State::kDraining) return;
  if (state_ == State::kHead && in_.empty()) SetDeadline(kHeadTimeoutUs);
  if (state_ == State::kBody) SetDeadline(kBodyTimeoutUs);
  char* fresh = g_buffer;
  auto left = static_cast<size_t>(n);
  if (state_ == State::kBody && in_.empty() && !processing_ && !exchange_->body_paused_ &&
      !parser_->done()) {
    // Passes a large body to its handler without a copy.
    size_t used = 0;
    processing_ = true;
    const bool fed = FeedBody(fresh, left, &used);
    processing_ = false;
    if (!fed) used = left;
    fresh += used;
    left -= used;
  }
  in_.append(fresh, left);
  Process();
}

bool Connection::FeedBody(char* data, size_t size, size_t* used) {
  const auto hold = exchange_;
  const auto fed = parser_->Feed(data, size, this);
  if (fed) {
    *used = *fed;
    return true;
  }
  if (hold->started()) {
    broken_ = true;
  } else {
    keep_alive_ = false;
    hold->RespondError(400, "INVALID_REQUEST_BODY", fed.error().message());
    close_after_flush_ = true;
    in_.clear();
  }
  return false;
}

void Connection::Process() {
  if (processing_) return;
  processing_ = true;
  bool progress = true;
  while (progress && state_ != State::kClosing && !broken_) {
    switch (state_) {
      case State::kHead:
        progress = ParseHead();
        break;
      case State::kBody:
        progress = ParseBody();
        break;
      case State::kAnswer:
        progress = exchange_->finished() && out_.empty() && file_left_ == 0;
        if (progress) NextRequest();
        break;
      case State::kRaw:
        progress = false;
        if (!in_.empty() && !exchange_->body_paused_) {
          std::string bytes;
          bytes.swap(in_);
          const auto hold = exchange_;
          if (hold->on_data_) hold->on_data_(bytes);
          progress = true;
        }
        break;
      case State::kDraining:
      case State::kClosing:
        progress = false;
        break;
    }
  }
  processing_ = false;
  if (broken_) {
    Close();
    return;
  }
  UpdateInterest();
}

bool Connection::ParseHead() {
  if (in_.empty() || close_after_flush_) return false;
  if (!parser_) parser_.emplace(http::Parser::Kind::kRequest, kMaxHead);
  const auto used = parser_->Feed(in_.data(), in_.size(), this);
  if (!used) {
    BadRequest(used.error());
    return false;
  }
  in_.erase(0, *used);
  if (!parser_->head_done()) return false;
  Dispatch();
  return true;
}

void Connection::BadRequest(const Error& error) {
  keep_alive_ = false;
  close_after_flush_ = true;
  in_.clear();
  const int status = error.code() == Code::kResourceExhausted ? 431 : 400;
  http::AppendStatusLine(status, {}, &out_);
  out_.append("Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n");
  http::AppendNumberField("Content-Length", error.message().size(), &out_);
  out_.append("\r\n").append(error.message());
  ScheduleFlush();
}

void Connection::Dispatch() {
  keep_alive_ = parser_->head().keep_alive;
  discarded_ = 0;
  SetDeadline(parser_->done() ? 0 : kBodyTimeoutUs);
  exchange_ = std::make_shared<Exchange>(&server_.loop_, this, parser_->head());
  state_ = State::kBody;
  server_.handler_(exchange_);
  const std::string* expect = exchange_->head().Find("expect");
  if (expect && http::EqualNoCase(*expect, "100-continue") && exchange_->on_data_ &&
      !exchange_->started()) {
    out_.append("HTTP/1.1 100 Continue\r\n\r\n");
    ScheduleFlush();
  }
}

void Connection::OnBody(std::string_view piece) {
  const auto hold = exchange_;
  body_size_ += piece.size();
  if (!hold->finished() && hold->on_data_) {
    hold->on_data_(piece);
    return;
  }
  discarded_ += piece.size();
  if (discarded_ > kMaxDiscard) {
    keep_alive_ = false;
    close_after_flush_ = true;
    ScheduleFlush();
  }
}

bool Connection::ParseBody() {
  const auto hold = exchange_;
  if (!parser_->done()) {
    if (in_.empty() || hold->body_paused_) return false;
    size_t used = 0;
    if (!FeedBody(in_.data(), in_.size(), &used)) return false;
    in_.erase(0, used);
    if (!parser_->done()) return used > 0 && !in_.empty();
  }
  // The handler may have switched protocols when the (empty) body ended.
  if (state_ != State::kBody) return true;
  state_ = State::kAnswer;
  SetDeadline(0);
  auto end = std::move(hold->on_body_end_);
  hold->on_body_end_ = nullptr;
  if (end && !hold->finished()) end();
  return true;
}

void Connection::EndExchange() {
  if (!exchange_) return;
  const auto exchange = std::move(exchange_);
  exchange_.reset();
  exchange->connection_ = nullptr;
  exchange->TellClosed();
}

void Connection::NextRequest() {
  EndExchange();
  parser_.reset();
  if (body_size_ > kTrimAbove) server_.TrimSoon();
  body_size_ = 0;
  if (!keep_alive_) {
    Close();
    return;
  }
  state_ = State::kHead;
  if (in_.capacity() > kKeepCapacity && in_.empty()) in_.shrink_to_fit();
  if (out_.capacity() > kKeepCapacity) out_.shrink_to_fit();
  SetDeadline(in_.empty() ? kIdleTimeoutUs : kHeadTimeoutUs);
}

void Connection::ScheduleFlush() {
  if (flush_scheduled_ || state_ == State::kClosing) return;
  flush_scheduled_ = true;
  server_.loop_.Post([this, &server = server_] {
    // The connection may be gone: other posted work may have destroyed it.
    if (server.connections_.count(this) == 0) return;
    flush_scheduled_ = false;
    Flush();
  });
}

// Returns false if the socket is full or broken.
bool Connection::SendBuffer() {
  while (out_sent_ < out_.size()) {
    const int more = file_left_ > 0 ? MSG_MORE : 0;
    const ssize_t n = ::send(socket_.get(), out_.data() + out_sent_, out_.size() - out_sent_,
                             MSG_NOSIGNAL | MSG_DONTWAIT | more);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) broken_ = true;
      return false;
    }
    out_sent_ += static_cast<size_t>(n);
  }
  out_.clear();
  out_sent_ = 0;
  return true;
}

void Connection::SendShortFile() {
  if (file_left_ == 0 || file_left_ > kFileWithHead) return;
  const ssize_t read = ::pread(file_.get(), g_buffer, file_left_, static_cast<off_t>(file_offset_));
  AfterFilePart(read);
  if (broken_) return;
  const auto size = static_cast<size_t>(read);
  const size_t head = out_.size() - out_sent_;
  iovec parts[] = {{out_.data() + out_sent_, head}, {g_buffer, size}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = std::size(parts);
  // Errors of the socket are found by the next send.
  const auto sent = static_cast<size_t>(
      std::max<ssize_t>(::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT), 0));
  out_sent_ += std::min(sent, head);
  const size_t of_file = sent - std::min(sent, head);
  out_.append(g_buffer + of_file, size - of_file);
}

// Sends one part in each turn, so that a large file on a slow disk does not delay the others.
void Connection::SendFilePart() {
  off_t offset = static_cast<off_t>(file_offset_);
  const size_t part = static_cast<size_t>(std::min<uint64_t>(file_left_, kFilePart));
  const ssize_t n = ::sendfile(socket_.get(), file_.get(), &offset, part);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  AfterFilePart(n);
}

void Connection::AfterFilePart(ssize_t n) {
  if (n <= 0) {
    // The file has become shorter or cannot be read, so the announced length cannot be kept.
    broken_ = true;
    return;
  }
  file_offset_ += static_cast<uint64_t>(n);
  file_left_ -= static_cast<uint64_t>(n);
  if (file_left_ == 0) file_.reset();
}

void Connection::Flush() {
  if (state_ == State::kClosing || state_ == State::kDraining) return;
  if (out_.size() - out_sent_ > Exchange::kHighWater) was_full_ = true;
  if (!broken_) SendShortFile();
  if (!broken_ && SendBuffer() && file_left_ > 0) SendFilePart();
  if (broken_) {
    Close();
    return;
  }
  // Compacts the buffer, so that sent bytes do not accumulate for a slow reader.
  if (out_sent_ > (64 << 10) && out_sent_ * 2 > out_.size()) {
    out_.erase(0, out_sent_);
    out_sent_ = 0;
  }
  AfterFlush();
}

void Connection::AfterFlush() {
  const size_t left = out_.size() - out_sent_;
  if (was_full_ && left <= Exchange::kHighWater / 2) {
    was_full_ = false;
    const auto hold = exchange_;
    if (hold && !hold->finished() && hold->on_writable_) {
      hold->on_writable_();
      if (state_ == State::kClosing) return;
    }
  }
  if (out_.empty() && file_left_ == 0) {
    if (close_after_flush_) return state_ == State::kRaw && !half_closed_ ? Drain() : Close();
    Process();
    if (state_ == State::kClosing) return;
  }
  UpdateInterest();
}

void Connection::Drain() {
  state_ = State::kDraining;
  ::shutdown(socket_.get(), SHUT_WR);
  in_ = {};
  EndExchange();
  SetDeadline(kDrainTimeoutUs);
  UpdateInterest();
}

void Connection::Close() {
  if (state_ == State::kClosing) return;
  state_ = State::kClosing;
  server_.loop_.Cancel(timer_);
  server_.loop_.Unwatch(watch_);
  socket_.reset();
  file_.reset();
  EndExchange();
  if (body_size_ > kTrimAbove) server_.TrimSoon();
  server_.Remove(this);
}

UniqueFd Connection::TakeSocket() {
  server_.loop_.Unwatch(watch_);
  UniqueFd socket = std::move(socket_);
  Close();
  return socket;
}

HttpServer::HttpServer(EventLoop* loop, RequestHandler handler)
    : loop_(*loop), handler_(std::move(handler)) {}

Status HttpServer::Listen(UniqueFd listener, std::function<bool(int)> accept_peer) {
  listener_ = std::move(listener);
  accept_peer_ = std::move(accept_peer);
  ATOLL_ASSIGN(acceptor_,
               Acceptor::Start(loop_, listener_.get(), {.name = "execd", .at_once = kAcceptAtOnce},
                               [this](Acceptor::Connection& connection) {
                                 if (!accept_peer_ || accept_peer_(connection.socket.get())) {
                                   Begin(std::move(connection.socket));
                                 }
                               }));
  return {};
}

Status HttpServer::Receive(UniqueFd connections) {
  listener_ = std::move(connections);
  ATOLL_ASSIGN(watch_, loop_.Watch(listener_.get(), EPOLLIN, [this](uint32_t) {
    auto piece = sys::ReceivePiece(listener_.get(), 1);
    // A connection for which no descriptor was free is lost. Later ones may succeed.
    if (!piece && piece.error().code() == Code::kResourceExhausted) return;
    // The sender is gone, and execd ends with it.
    if (!piece || piece->bytes.empty()) return loop_.Modify(watch_, 0);
    for (UniqueFd& socket : piece->fds) {
      if (::fcntl(socket.get(), F_SETFL, O_RDWR | O_NONBLOCK) == 0) Begin(std::move(socket));
    }
  }));
  return {};
}

void HttpServer::Begin(UniqueFd socket) {
  auto connection = std::make_unique<Connection>(this, std::move(socket));
  Connection* raw = connection.get();
  connections_.emplace(raw, std::move(connection));
  if (!raw->Start()) {
    connections_.erase(raw);
    return;
  }
  // The peer has usually sent its request already; reading now saves a turn of the loop.
  raw->OnReadable();
  if (connections_.size() >= kMaxConnections) SetOpen(false);
}

void HttpServer::SetOpen(bool open) {
  if (acceptor_) acceptor_->SetOpen(open);
  if (watch_ != 0) loop_.Modify(watch_, open ? EPOLLIN : 0U);
}

// The parts of a large body are scattered over the heap, where free() returns only the top.
// Delayed, because connections and failed commands free their memory in the next turns.
void HttpServer::TrimSoon() {
  constexpr int64_t kTrimDelayUs = 50'000;
  if (trim_ != 0) return;
  trim_ = loop_.After(kTrimDelayUs, [this] {
    trim_ = 0;
    ::malloc_trim(0);
  });
}

void HttpServer::Remove(Connection* connection) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  // Destroyed after this turn, because the caller is one of its member functions.
  const std::shared_ptr<Connection> last(std::move(found->second));
  connections_.erase(found);
  loop_.Post([last] {});
  if (connections_.size() + 1 == kMaxConnections) SetOpen(true);
}

}  // namespace atl::execd
